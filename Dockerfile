# qpipe in a container, by Debian's packages and the ones built here alone.
#
#   docker build -t qpipe .
#   docker run --rm -it qpipe                          talk to the demo model
#   docker run --rm -i qpipe sh -c 'echo hi | qtok | qdecode | qtok -d'
#   docker run --rm -it -v "$PWD:/work" -e QWEN_MODEL=model.gguf qpipe
#
# A server on http://127.0.0.1:8080/, for clients that call it localhost.  Prompts
# that it has read are kept in the volume qpipe-store:
#
#   docker build --target serve -t qserve .
#   docker run --rm -p 127.0.0.1:8080:8080 -v "$PWD:/work:ro" \
#       -e QWEN_MODEL=model.gguf -v qpipe-store:/var/lib/qserve qserve
#
# Options of qserve(1) go after the name of the image.  For clients on other
# machines use -p 8080:8080 and "qserve --host myhost.lan", the name that they call.
# To require API keys, mount a file with one key per line:
#   -v "$PWD/keys:/run/credentials/qserve.api-keys:ro"
FROM debian:stable-slim AS build
WORKDIR /src/qpipe
COPY . .
# The tests have run before: "make check".
RUN apt-get update && \
    apt-get install -y --no-install-recommends dpkg-dev && \
    DEB_BUILD_PROFILES=nocheck apt-get build-dep -y --no-install-recommends . && \
    DEB_BUILD_OPTIONS=nocheck dpkg-buildpackage -us -uc -b -Pnocheck

FROM debian:stable-slim AS tools
RUN --mount=type=bind,from=build,source=/src,target=/src \
    apt-get update && \
    apt-get install -y --no-install-recommends ca-certificates curl /src/qpipe_*.deb \
        /src/qpipe-demo_*.deb && \
    rm -rf /var/lib/apt/lists/* && \
    mkdir -m 1777 /work
WORKDIR /work

FROM tools AS serve
RUN mkdir -m 700 /var/lib/qserve && chown nobody /var/lib/qserve
USER nobody
ENV QWEN_STORE=/var/lib/qserve CREDENTIALS_DIRECTORY=/run/credentials
VOLUME /var/lib/qserve
EXPOSE 8080
HEALTHCHECK --start-period=60s CMD curl -fsS -o /dev/null http://localhost:8080/health
STOPSIGNAL SIGTERM
ENTRYPOINT ["qserve", "--listen", "0.0.0.0:8080"]

FROM tools
USER nobody
CMD ["qchat"]
