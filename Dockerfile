# qpipe in a container, by Debian's packages and the ones built here alone.
#
#   docker build -t qpipe .
#   docker run --rm -it qpipe                          talk to the demo model
#   docker run --rm -i qpipe sh -c 'echo hi | qtok | qdecode | qtok -d'
#   docker run --rm -it -v "$PWD:/work" -e QWEN_MODEL=model.gguf qpipe
FROM debian:stable-slim AS build
WORKDIR /src/qpipe
COPY . .
# The tests have run before: "make check".
RUN apt-get update && \
    apt-get install -y --no-install-recommends dpkg-dev && \
    DEB_BUILD_PROFILES=nocheck apt-get build-dep -y --no-install-recommends . && \
    DEB_BUILD_OPTIONS=nocheck dpkg-buildpackage -us -uc -b -Pnocheck

FROM debian:stable-slim
RUN --mount=type=bind,from=build,source=/src,target=/src \
    apt-get update && \
    apt-get install -y --no-install-recommends libcurl4 /src/qpipe_*.deb \
        /src/qpipe-demo_*.deb && \
    rm -rf /var/lib/apt/lists/* && \
    mkdir -m 1777 /work
WORKDIR /work
USER nobody
CMD ["qchat"]
