# qpipe: one non-recursive GNU Makefile.
#
#   make            every tool into bin/; libqwen (the engine) and libqwentext
#                   (text, chats, grammars) into build/; with YYJSON=system, the
#                   system's yyjson in the latter in place of our copy
#   make demo       install what is missing, build, run the pipeline
#   make check      all tests (TAP), closing with "N passed, N failed"; JOBS=N at
#                   a time, in place of one for each processor
#   make check-long the long ones too
#   make check-arm64 those for arm64 alone, under qemu-user
#   make bench      speed, as ratios, appended to tests/bench/history.tsv;
#                   with BENCH=-c compared with what is there only, fails if slower
#   make bench-store  how long a prefix is looked for among 10,000 files
#   make bench-state  what states cost in time and room; MODELS='file ...'
#   make bench-pool   what a job costs the threads that share it
#   make asan ubsan tsan   the tests under a sanitizer
#   make audit      20 minutes of everything that can go wrong, at random
#   make fuzz       libFuzzer targets (clang) into build/fuzz/
#   make install    PREFIX=/usr/local DESTDIR=; install-debug keeps the symbols
#                   for debuggers
#   make uninstall  with the same PREFIX and DESTDIR
#   make CUDA=n     without kernels for cards; CLANG=clang-19: what compiles these
#   make MPI=n      without the part for MPI; MPICC=mpicc: what compiles it
#   make STATIC=1   tools without shared libraries, into build/static-ARCH/bin;
#                   with CC=aarch64-linux-gnu-gcc for arm64
#   make dist       the source archive of the release, into build/dist
#   make dist-bin   archives of static tools for x86-64 and arm64, there too

VERSION := $(shell sed -n 's/.*define QWEN_VERSION "\(.*\)"/\1/p' lib/qwen/base.h)
SOVERSION = 0
# The commit that --version names: of this clone, or of the archive that this
# tree came in.  Empty if neither is known.
COMMIT := $(shell if [ -e .git ]; then git describe --always --abbrev=10 \
	--exclude='*' --dirty=+ 2>/dev/null; else sed -n '/^[0-9a-f]*$$/p' .commit \
	2>/dev/null; fi)
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DATADIR ?= $(PREFIX)/share
MANDIR ?= $(DATADIR)/man
# The tools look for the demo model here, from where they are.
DEMODIR = $(BINDIR)/../share/qpipe

CC ?= cc
# A cross-compiler, aarch64-linux-gnu-gcc, has the other tools beside it.
CROSS := $(patsubst %gcc,%,$(filter %-gcc,$(lastword $(CC))))
ifeq ($(origin AR),default)
AR = $(CROSS)ar
endif
NM ?= $(CROSS)nm
STRIP ?= $(CROSS)strip
CFLAGS ?= -O2 -g
override STATIC := $(filter 1,$(STATIC))
# The processor that CC compiles for: of its kernels, those are taken.
MACHINE := $(shell $(CC) -dumpmachine)
# B: objects and libraries; BIN: the tools.
ifdef STATIC
B ?= build/static-$(firstword $(subst -, ,$(MACHINE)))
BIN ?= $(B)/bin
else
B ?= build
BIN ?= bin
endif

WARN = -Wall -Wextra -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes
# The tools read hostile files, so the run-time checks of the C library and the
# compiler are on.  Sanitizers have checks of their own.
SANITIZED = $(findstring -fsanitize,$(CFLAGS))
HARDEN = $(if $(SANITIZED),,-fstack-protector-strong $(if $(filter \
	-O1 -O2 -O3 -Os,$(CFLAGS)),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2))
HARDEN_LD = $(if $(SANITIZED),,-Wl,-z,relro,-z,now)
# A tool has the functions that it calls, and not all of the files that these are in.
SECTIONS = -ffunction-sections
SECTIONS_LD = -Wl,--gc-sections
# Numerics are a contract (man/qwen-numerics.7): no contraction, no fast-math.
ALL_CFLAGS = -std=c11 -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -fPIC \
	-ffp-contract=off -fno-math-errno -pthread $(WARN) -Ilib $(INC_YYJSON) \
	-I$(B) $(HARDEN) $(CPPFLAGS) $(CFLAGS) $(SECTIONS)
# STATIC=1 takes headers and libraries from this folder; share/dist/libraries.sh
# makes it of Debian's packages, unless another one is named.
ifdef STATIC
LIBRARIES ?= build/libraries/$(MACHINE)
ALL_CFLAGS += -isystem $(LIBRARIES)/include -DQPIPE_STATIC
STATIC_LD = -static-pie -L$(LIBRARIES)/lib $(addsuffix \
	$(LIBRARIES)/lib/libc/,-B -L)
endif
# What libqwen needs; libqwentext needs that, and JSON.
LIBS_QWEN = -lcbor -lzstd -lxxhash -lm -pthread $(if $(STATIC),,-ldl)
ifeq ($(YYJSON),system)
LIBS_YYJSON = -lyyjson
else
INC_YYJSON = -Ilib/text/yyjson
endif
# Text is normalised by a library of its own, if it is there.
ifdef STATIC
LIBS_UNISTRING := -lunistring
else
LIBS_UNISTRING := $(shell printf '\043include <uninorm.h>\nint main(void) { \
	return uninorm_filter_create == 0; }\n' | $(CC) $(CPPFLAGS) $(LDFLAGS) \
	-xc - -o /dev/null -lunistring 2>/dev/null && echo -lunistring)
endif
LIBS = $(LIBS_YYJSON) $(LIBS_UNISTRING) $(LIBS_QWEN)

ISA_DIR := $(if $(filter x86_64-%,$(MACHINE)),x86,$(if \
	$(filter aarch64-% arm64-%,$(MACHINE)),arm,generic))

# What a shared library exports: what its headers declare, and, under a name of
# its own, what only the other one may use.
DECLARED = sed -n 's|^\#include "\(.*\)"|lib/\1|p' lib/$*.h | \
	xargs sed -n 's|^[^[:space:]*/\#].*\(qwen_[a-z0-9_]*\)(.*|\1|p' | sort -u
BORROWED = { cat $@.public; $(NM) -P -g $(B)/libqwentext.a; } | \
	awk '{ sub(/^_qwen/, "qwen", $$1) } $$2 != "U" { known[$$1]; next } \
	$$1 ~ /^qwen_/ { used[$$1] } \
	END { for (f in used) if (!(f in known)) print f }' | sort
SHARED = -shared -Wl,-soname,lib$*.so.$(SOVERSION) \
	$(if $(SANITIZED),,-Wl,-z,defs) -Wl,--version-script,$(B)/$*.map
MAP = echo 'LIB$1 { global:'; sed 's/$$/;/' $@.public; echo 'local: *; };'; \
	if [ -s $@.private ]; then echo 'LIB$1_PRIVATE { global:'; \
	sed 's/$$/;/' $@.private; echo '};'; fi
# macOS, where none of this has been tried yet.
ifneq ($(findstring -darwin,$(MACHINE)),)
ALL_CFLAGS += -D_DARWIN_C_SOURCE
HARDEN_LD =
SECTIONS_LD = -Wl,-dead_strip
SHARED = -dynamiclib -Wl,-install_name,$(LIBDIR)/lib$*.so.$(SOVERSION) \
	-Wl,-exported_symbols_list,$(B)/$*.map
MAP = sed 's/^/_/' $@.public $@.private
endif

# What is collected by name, so that a new file is all that a new one needs.
KERN := $(sort $(wildcard lib/engine/cpu/kernel/generic/*_*.c lib/engine/cpu/kernel/$(ISA_DIR)/*_*.c))
# AMX needs a compiler that knows it; on a software model of its tiles, the
# tests run the same files everywhere on x86.
AMX_KERN := $(filter %_amx.c,$(KERN))
MODELLED := $(notdir $(AMX_KERN:.c=))
ifneq ($(shell $(CC) -mamx-int8 -mamx-bf16 -E -xc /dev/null >/dev/null 2>&1 && echo y),y)
KERN := $(filter-out $(AMX_KERN),$(KERN))
endif
QUANT := $(filter-out %/quant.c %/codebook.c %/math.c \
	%/logprob.c %/kv.c,$(sort $(wildcard lib/engine/quant/*.c)))
SAMP := $(sort $(wildcard lib/engine/sample/method/*.c))

# Kernels for cards: clang compiles them to PTX, which is text, and zstd packs it;
# without either, or with CUDA=n, the tools use no card.  Tests run their plain C
# form.
CARD_KERN := $(sort $(wildcard lib/engine/cuda/kernel/*.c))
PTX_FLAGS = --target=nvptx64-nvidia-cuda -march=sm_80 --cuda-path=/nonexistent \
	-Xclang -target-feature -Xclang +ptx70 -O3 -ffp-contract=off \
	-fno-math-errno -std=gnu11 -ffreestanding -nogpulib -Ilib -Wall -Wextra \
	-Wno-unused-function
ifeq ($(filter n,$(CUDA))$(CORE)$(STATIC),)
PTX_CC := $(firstword $(foreach c,$(CLANG) clang-19 clang-20 clang-21 clang-22 \
	clang,$(shell printf '__attribute__((nvptx_kernel)) void f(int *p)\
	{ __asm__("" :: "l"(p)); *p = __nvvm_read_ptx_sreg_tid_x(); }\n' | \
	$c $(PTX_FLAGS) -Wno-missing-prototypes -S -xc - -o - 2>/dev/null | \
	grep -q '\.entry f' && command -v zstd >/dev/null && echo $c)))
endif

# The part for MPI, a library by itself, which the device "mpi" loads.  It needs
# mpicc, and is not built with MPI=n.
MPICC = mpicc
ifeq ($(filter n,$(MPI))$(CORE)$(STATIC),)
MPI_LIB := $(if $(shell command -v $(MPICC)),$(B)/libqwen-mpi.so.$(SOVERSION))
endif

# The floors: what all share and the engine are libqwen; text is libqwentext.
# CORE=y is what needs no other library.
GROUND_SRC := $(sort $(wildcard lib/base/*.c lib/gguf/*.c lib/wire/*.c))
ENGINE_SRC := $(sort $(wildcard lib/engine/*.c lib/engine/*/*.c \
	lib/engine/cpu/kernel/*.c) \
	$(KERN) $(SAMP))
TEXT_SRC := $(sort $(wildcard lib/text/*/*.c))
SYNTH_SRC := $(sort $(wildcard lib/synth/*.c))
HUB_SRC := $(sort $(wildcard lib/hub/*.c))
MODELS_SRC := $(sort $(wildcard lib/models/*.c))
IMAGE_SRC := $(sort $(wildcard lib/image/*.c))
VISION_SRC := $(sort $(wildcard lib/vision/*.c))
QUANTIZE_SRC := $(sort $(wildcard lib/quantize/*.c lib/quantize/generic/*.c \
	lib/quantize/$(ISA_DIR)/*.c))
ifeq ($(YYJSON),system)
TEXT_SRC := $(filter-out lib/text/yyjson/%,$(TEXT_SRC))
endif
ifdef CORE
GROUND_SRC := $(filter-out lib/wire/%,$(GROUND_SRC))
ENGINE_SRC := $(filter-out lib/engine/state/% lib/engine/store/% \
	lib/engine/batch/%,$(ENGINE_SRC))
TEXT_SRC :=
HUB_SRC :=
MODELS_SRC :=
IMAGE_SRC :=
VISION_SRC :=
endif
CLI_SRC := $(sort $(wildcard lib/cli/*.c lib/tool/*.c))
# A tool is cmd/NAME.c, with the files of cmd/NAME/ where there are any.
CMD_SRC := $(sort $(wildcard cmd/*.c))
# Without libcurl, qbench asks no servers; without libedit, qchat edits no lines.
HAS = $(STATIC)$(shell echo '\#include <$1>' | $(CC) $(CPPFLAGS) -E - \
	>/dev/null 2>&1 && echo y)
PART_SRC := $(filter-out $(if $(call HAS,curl/curl.h),,cmd/qbench/url_%.c) \
	$(if $(call HAS,histedit.h),,cmd/qchat/edit.c),\
	$(sort $(wildcard cmd/*/*.c)))
# Formats of images, each by a library of its own, if it is there.
IMAGE_FORMATS := $(if $(IMAGE_SRC),$(if $(call HAS,jpeglib.h),jpeg) $(if \
	$(call HAS,png.h),png) $(if $(call HAS,webp/demux.h),webp) $(if \
	$(call HAS,gif_lib.h),gif))
IMAGE_SRC += $(IMAGE_FORMATS:%=lib/image/format/%.c)
LIBS_jpeg = -ljpeg
LIBS_png = -lpng
LIBS_webp = -lwebpdemux -lwebp
LIBS_gif = -lgif
LIBS_IMAGE = $(foreach f,$(IMAGE_FORMATS),$(LIBS_$f)) $(if $(STATIC),-lz -lm)
REF_SRC := $(sort $(wildcard tests/ref/*.c))
TEST_SRC := $(sort $(wildcard tests/unit/*.c tests/kernel/*.c tests/golden/*.c \
	tests/cuda/*.c))
TEST_SRC := $(filter-out tests/cuda/emu.c tests/cuda/fake.c,$(TEST_SRC))
FUZZ_SRC := $(sort $(wildcard tests/fuzz/fuzz_*.c))

QWEN_OBJ := $(patsubst %.c,$(B)/%.o,$(GROUND_SRC) $(ENGINE_SRC))
TEXT_OBJ := $(TEXT_SRC:%.c=$(B)/%.o)
SYNTH_OBJ := $(SYNTH_SRC:%.c=$(B)/%.o)
HUB_OBJ := $(HUB_SRC:%.c=$(B)/%.o)
MODELS_OBJ := $(MODELS_SRC:%.c=$(B)/%.o)
IMAGE_OBJ := $(IMAGE_SRC:%.c=$(B)/%.o)
QUANTIZE_OBJ := $(sort $(QUANTIZE_SRC:%.c=$(B)/%.o))
VISION_OBJ := $(VISION_SRC:%.c=$(B)/%.o)
CLI_OBJ := $(CLI_SRC:%.c=$(B)/%.o)
REF_OBJ := $(REF_SRC:%.c=$(B)/%.o)
FUZZ_OBJ := $(FUZZ_SRC:%.c=$(B)/%.o)
MUTATE_SRC := $(sort $(wildcard tests/fuzz/mutate*.c))
MUTATE_OBJ := $(MUTATE_SRC:%.c=$(B)/%.o)
MODEL_OBJ := $(addprefix $(B)/tests/kernel/amx/,$(MODELLED:=.o) amx_model.o \
	amx_trap.o)
TOOLS := $(CMD_SRC:cmd/%.c=$(BIN)/%)
TESTS := $(TEST_SRC:%.c=$(B)/%)
# What tests of a client ask.
STUB := $(B)/tests/cli/http_stub
# Clients of a server, good ones and others.
SOAK := $(if $(findstring -linux-gnu,$(MACHINE)),$(B)/tests/faults/soak)
FAULTS := $(if $(findstring -linux-gnu,$(MACHINE)),$(addprefix \
	$(B)/tests/faults/,preload.so inject hammer))

# Those that are installed; all, in the order in which they use each other.
WINGS = $(if $(STATIC),,qwen qwentext)
ARCHIVES = $(addprefix $(B)/,libcli.a libsynth.a libhub.a libquantize.a \
	libvision.a libmodels.a libimage.a libqwentext.a libqwen.a)

all: $(TOOLS) $(foreach l,$(WINGS),$(B)/lib$l.a $(B)/lib$l.so \
	$(B)/lib$l.so.$(SOVERSION)) $(MPI_LIB)

PARTS = $(patsubst %.c,$(B)/%.o,$(filter cmd/$1/%,$(PART_SRC)))
.SECONDEXPANSION:
$(TOOLS): $(BIN)/%: $(B)/cmd/%.o $$(call PARTS,$$*) $(ARCHIVES)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(HARDEN_LD) $(SECTIONS_LD) $(STATIC_LD) $(LDFLAGS) \
		-o $@ $^ $(LIBS)

ifdef STATIC
$(BIN)/qbench $(BIN)/gguf-fetch: LIBS += -lcurl -lssl -lcrypto
$(BIN)/qchat: LIBS += -ledit -ltinfo -lbsd -lmd
else
# libcurl is only loaded when a server is asked, see qbench/url_http.c.
$(BIN)/qbench: LIBS += -ldl

# Lines are edited by a library of its own, if it is there.
$(BIN)/qchat: LIBS += $(if $(call HAS,histedit.h),-ledit)
# Without these two, gguf-fetch only looks at what is on this machine.
$(BIN)/gguf-fetch: LIBS += $(if $(shell printf '\043include <curl/curl.h>\n'\
	'\043include <openssl/evp.h>\n' | \
	$(CC) $(CPPFLAGS) -E - >/dev/null 2>&1 && echo y),-lcurl -lcrypto)
endif
$(BIN)/qserve: LIBS += -lmicrohttpd $(if $(STATIC),-lcurl -lssl -lcrypto,-ldl)
$(BIN)/qimage $(filter %/fuzz_seeds $(B)/tests/unit/image_%,$(TESTS)): \
	LIBS += $(LIBS_IMAGE)

$(B)/libqwen.a: $(QWEN_OBJ)
$(B)/libqwentext.a: $(TEXT_OBJ)
$(B)/libsynth.a: $(SYNTH_OBJ)
$(B)/libhub.a: $(HUB_OBJ)
$(B)/libmodels.a: $(MODELS_OBJ)
$(B)/libimage.a: $(IMAGE_OBJ)
$(B)/libvision.a: $(VISION_OBJ)
$(B)/libquantize.a: $(QUANTIZE_OBJ)
$(B)/libcli.a: $(CLI_OBJ)
$(B)/libref.a: $(REF_OBJ)
# Each fuzzer's LLVMFuzzerTestOneInput by the name of its file.
$(FUZZ_OBJ): ISA = -DLLVMFuzzerTestOneInput=$(*F)
$(B)/libfuzz.a: $(FUZZ_OBJ) $(MUTATE_OBJ)
$(B)/libmodelled.a: $(MODEL_OBJ)
$(B)/lib%.a:
	@mkdir -p $(@D)
	@rm -f $@
	$(AR) rcs $@ $^

$(B)/libqwen.so: $(QWEN_OBJ)
$(B)/libqwentext.so: $(TEXT_OBJ) $(B)/libqwen.so
$(B)/libqwen.so: NEEDS = $(LIBS_QWEN)
$(B)/libqwentext.so: NEEDS = $(LIBS_YYJSON) $(LIBS_UNISTRING) -lm -pthread
$(B)/lib%.so: $(B)/%.map
	$(CC) $(ALL_CFLAGS) $(HARDEN_LD) $(LDFLAGS) $(SHARED) -o $@ $(filter-out %.map,$^) \
		$(NEEDS)
# The name by which programs load the library, also from the build folder.
$(B)/lib%.so.$(SOVERSION): $(B)/lib%.so
	ln -sf $(<F) $@
$(MPI_LIB): lib/mpi/transport.c lib/engine/mpi/calls.h
	@mkdir -p $(@D)
	$(MPICC) -std=c11 -D_POSIX_C_SOURCE=200809L -fPIC -fvisibility=hidden $(WARN) -Ilib $(HARDEN) \
		$(CPPFLAGS) $(CFLAGS) $(HARDEN_LD) $(LDFLAGS) -shared \
		-Wl,-soname,$(@F) -o $@ $<
$(B)/qwen.map: $(B)/libqwentext.a
$(WINGS:%=$(B)/%.map): $(B)/%.map: lib/%.h $(wildcard lib/qwen/*.h)
	@mkdir -p $(@D)
	@$(DECLARED) >$@.public
	@$(if $(filter %.a,$^),$(BORROWED)) >$@.private
	@{ $(call MAP,$(shell echo $* | tr a-z A-Z)); } >$@

$(B)/lib/text/token/nfc.o: ISA = $(LIBS_UNISTRING:-l%=-DHAVE_UNISTRING)

# Instruction-set flags by file-name suffix; a new set adds a line.
$(B)/%_avx2.o: ISA = -mavx2 -mfma -mf16c
$(B)/%_avxvnni.o: ISA = -mavx2 -mavxvnni -mfma -mf16c
$(B)/%_avx512vnni.o: ISA = -mavx512f -mavx512bw -mavx512vl -mavx512dq \
	-mavx512vnni -mfma -mf16c
$(B)/%_avx512vbmi.o: ISA = -mavx512f -mavx512bw -mavx512vl -mavx512dq \
	-mavx512vnni -mavx512vbmi -mbmi2 -mfma -mf16c
$(B)/%_avx512bf16.o: ISA = -mavx512f -mavx512bw -mavx512vl -mavx512dq \
	-mavx512vnni -mavx512bf16 -mfma -mf16c
$(B)/%_amx.o: ISA = -mavx512f -mavx512bw -mavx512vl -mavx512dq \
	-mavx512vnni -mavx512vbmi -mfma -mf16c -mamx-tile -mamx-int8 -mamx-bf16
$(B)/tests/kernel/amx%.o: ISA = -DQWEN_AMX_MODEL -Itests/kernel/amx
$(MODELLED:%=$(B)/tests/kernel/amx/%.o): ISA = -mavx512f -mavx512bw \
	-mavx512vl -mavx512dq -mavx512vnni -mavx512vbmi -mfma -mf16c \
	-DQWEN_AMX_MODEL -Itests/kernel/amx
$(B)/%_dotprod.o: ISA = -march=armv8.2-a+dotprod
$(B)/%_i8mm.o: ISA = -march=armv8.2-a+dotprod+i8mm
# Where nearly all is inlined, -g would take a third of the compiler's time to
# tell of variables: lines are enough.
LINES = $(if $(filter -g,$(CFLAGS)),-g1)
$(B)/lib/engine/cpu/kernel/%.o \
	$(B)/lib/engine/quant/logprob.o $(B)/lib/engine/state/codec.o \
	$(B)/lib/quantize/generic/%.o $(B)/lib/quantize/x86/%.o: OPT = -O3 $(LINES)
$(MODELLED:%=$(B)/tests/kernel/amx/%.o): OPT = $(LINES)

# The kernels of cards, packed, within the library.
$(B)/ptx/%.ptx: lib/engine/cuda/kernel/%.c
	@mkdir -p $(@D)
	$(PTX_CC) $(PTX_FLAGS) -MMD -MP -MF $(@:.ptx=.d) -MT $@ -S -o $@ $<
PTX := $(if $(PTX_CC),$(CARD_KERN:lib/engine/cuda/kernel/%.c=$(B)/ptx/%.ptx))
$(B)/lib/engine/cuda/ptx.o: ISA = $(if $(PTX),-DQWEN_CUDA_PTX -Wa$(comma)-I$(B)/ptx)
$(B)/ptx/all.zst: $(PTX)
	@for f in $^; do basename $$f .ptx | tr '\n' '\0'; cat $$f; \
		printf '\0'; done >$@.text
	zstd -q -f -19 --rm $@.text -o $@
$(B)/lib/engine/cuda/ptx.o: $(if $(PTX),$(B)/ptx/all.zst)
# A driver for machines without a card, with the kernels' plain C form.
FAKE := $(if $(findstring -linux-gnu,$(MACHINE)),$(B)/tests/cuda/libcuda.so.1)
FAKE_OBJ := $(CARD_KERN:%.c=$(B)/tests/cuda/%.o)
$(B)/tests/cuda/lib/%.o: lib/%.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -std=gnu11 -O2 $(LINES) $(if $(filter x86,$(ISA_DIR)),\
		-mavx2 -mfma -mf16c) -Wno-unused-function -Wno-shadow \
		-MMD -MP -c -o $@ $<
$(FAKE): $(B)/tests/cuda/emu.o $(B)/tests/cuda/fake.o $(FAKE_OBJ)
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -shared -o $@ $^ -lm -ldl

# No tool reads JSON in pieces, 40 kB, or what only resembles JSON, 28 kB.
$(B)/lib/text/yyjson/%.o: OPT = -DYYJSON_DISABLE_INCR_READER \
	-DYYJSON_DISABLE_NON_STANDARD $(LINES)

$(B)/%.o: %.c | $(if $(STATIC),$(LIBRARIES)/complete)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(OPT) $(ISA) -MMD -MP -c -o $@ $<

$(MODELLED:%=$(B)/tests/kernel/amx/%.o): $(B)/tests/kernel/amx/%.o: \
		lib/engine/cpu/kernel/x86/%.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(OPT) $(ISA) -MMD -MP -c -o $@ $<

build/libraries/$(MACHINE)/complete: share/dist/libraries.sh
	@sh tests/deps.sh static
	@sh $< $(@D) $(MACHINE) '$(CC)' '$(AR)'

# Lists of variants, formats, samplers, image formats: one line a file,
# rewritten only when the list changes.
$(B)/kernels.inc: LIST = $(foreach f,$(KERN),KERNELS(qwen_$(basename $(notdir $f))_kernels))
$(B)/quants.inc: LIST = $(foreach f,$(QUANT),QUANT(qwen_quant_$(basename $(notdir $f))))
$(B)/samplers.inc: LIST = $(foreach f,$(SAMP),SAMPLER(qwen_sampler_$(basename $(notdir $f))))
$(B)/modelled.inc: LIST = $(foreach f,$(MODELLED),MODELLED(qwen_$f_model_kernels))
$(B)/images.inc: LIST = $(foreach f,$(IMAGE_FORMATS),FORMAT(qwen_image_$f_format))
$(B)/fuzzers.inc: LIST = $(foreach f,$(FUZZ_SRC),FUZZER($(f:tests/fuzz/fuzz_%.c=%)))
$(B)/kernels.inc $(B)/quants.inc $(B)/samplers.inc \
		$(B)/modelled.inc $(B)/images.inc $(B)/fuzzers.inc: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' $(foreach l,$(LIST),'$l') >$@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
# git may refuse to read a clone of another user: then "sudo make install" keeps the
# commit that "make" has found.
$(B)/commit.inc: FORCE
	@mkdir -p $(@D)
	@echo '"$(COMMIT)"' >$@.new
	@if cmp -s $@.new $@ || { [ -z "$(COMMIT)" ] && [ -e $@ ]; }; then \
		rm $@.new; else mv $@.new $@; fi
$(B)/lib/cli/option.o: $(B)/commit.inc
# The published chat templates, byte by byte.
$(B)/templates.inc: lib/text/chat/templates $(wildcard lib/text/chat/templates/*.jinja)
	@mkdir -p $(@D)
	@for f in $(filter %.jinja,$^); do \
		n=$${f##*/}; echo "TEMPLATE(\"$${n%.jinja}\")"; \
		od -An -v -tu1 "$$f" | sed 's/[0-9][0-9]*/&,/g'; \
		echo TEMPLATE_END; done >$@.new
	@mv $@.new $@
$(B)/lib/text/chat/template.o: $(B)/templates.inc
# The chat page of qserve, likewise.
$(B)/page.inc: cmd/qserve/page/page.html
	@mkdir -p $(@D)
	@{ od -An -v -tu1 $< | sed 's/[0-9][0-9]*/&,/g'; echo 0; } >$@.new
	@mv $@.new $@
$(B)/cmd/qserve/page.o: $(B)/page.inc
# The grids of IQ formats, an entry each E(0x...): see quant/codebook.c.
$(B)/grids/%.inc: lib/engine/quant/grids/%.txt
	@mkdir -p $(@D)
	@sed 's/[0-9a-f][0-9a-f]*/E(0x&),/g' $< >$@
$(B)/lib/engine/quant/codebook.o $(patsubst %.c,$(B)/%.o,$(filter \
		%_avx512vbmi.c,$(KERN))): $(patsubst lib/engine/quant/%.txt, \
		$(B)/%.inc,$(wildcard lib/engine/quant/grids/*.txt))
$(B)/lib/engine/cpu/kernel/dispatch.o: $(B)/kernels.inc
$(patsubst %.c,$(B)/%.o,$(filter tests/kernel/%,$(TEST_SRC))) \
		$(B)/tests/golden/bits.o: $(B)/modelled.inc
$(B)/tests/unit/fuzz_seeds.o: $(B)/fuzzers.inc
$(B)/lib/engine/quant/quant.o: $(B)/quants.inc
$(B)/lib/image/decode.o: $(B)/images.inc
$(patsubst %.c,$(B)/%.o,$(wildcard lib/engine/sample/*.c)): $(B)/samplers.inc

# Targets that do everything by one command build on all processors, unless
# -j says otherwise.
PARALLEL = $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell getconf _NPROCESSORS_ONLN))

# Tests: every tests/{unit,kernel,golden}/*.c is a TAP program, every
# tests/cli/*.t a TAP shell script.
$(B)/tests/unit/fuzz_seeds: $(B)/libfuzz.a
BENCHES := $(addprefix $(B)/tests/bench/,state pool)
$(TESTS) $(BENCHES): $(B)/%: $(B)/%.o \
		$(B)/libref.a $(B)/libmodelled.a $(ARCHIVES)
	$(CC) $(ALL_CFLAGS) $(HARDEN_LD) $(SECTIONS_LD) $(LDFLAGS) -o $@ $< \
		$(filter %/libfuzz.a %_avx512vnni.o,$^) \
		$(B)/libref.a $(B)/libmodelled.a $(ARCHIVES) $(LIBS)


# Counts what the library takes: every call passes by the test's own.
$(B)/tests/unit/decode_alloc: LDFLAGS += $(addprefix -Wl$(comma)--wrap=,malloc \
	calloc realloc posix_memalign aligned_alloc mmap)
$(B)/tests/unit/store_faults: LDFLAGS += $(addprefix -Wl$(comma)--wrap=,readdir \
	fstatat unlinkat)
comma := ,

check: deps arm64
	@$(MAKE) --no-print-directory $(PARALLEL) all tests
	@B=$(B) BIN=$(BIN) sh tests/run.sh
check-long: deps arm64
	@sh tests/deps.sh long
	@$(MAKE) --no-print-directory $(PARALLEL) all tests $(BENCHES)
	@B=$(B) BIN=$(BIN) QPIPE_LONG=1 sh tests/run.sh
tests: $(TESTS) $(FAULTS) $(STUB) $(SOAK) $(FAKE)
$(STUB): tests/cli/http_stub.c
	@mkdir -p $(@D)
	$(CC) -std=c11 -O2 -g $(WARN) -o $@ $<

# Allocations that fail: a library put before the C library's, and what runs
# the tools with it.
$(B)/tests/faults/preload.so: tests/faults/alloc.c tests/faults/alloc.h
	@mkdir -p $(@D)
	$(CC) -std=c11 -O2 -g -fPIC -shared $(WARN) -DFAULT_PRELOAD -o $@ $< -pthread
comma := ,
# Between the library and the allocator of the test that has it fail.
$(B)/tests/unit/out_of_memory: $(B)/tests/faults/alloc.o
$(B)/tests/unit/out_of_memory: LIBS += $(B)/tests/faults/alloc.o \
	$(addprefix -Wl$(comma)--wrap=,malloc calloc realloc posix_memalign \
	aligned_alloc free strdup strndup mmap)
$(B)/tests/faults/inject: tests/faults/inject.c tests/faults/run.c \
		tests/faults/run.h tests/tree.h
	@mkdir -p $(@D)
	$(CC) -std=c11 -O2 -g $(WARN) -o $@ $(filter %.c,$^)
$(SOAK): $(B)/tests/faults/soak.o $(ARCHIVES)
	$(CC) $(ALL_CFLAGS) $(HARDEN_LD) $(SECTIONS_LD) $(LDFLAGS) -o $@ $^ $(LIBS)
HAMMER = $(sort $(wildcard tests/faults/hammer*.c)) tests/faults/run.c $(MUTATE_SRC)
$(B)/tests/faults/hammer: $(HAMMER) tests/faults/run.h tests/faults/hammer.h \
		tests/fuzz/mutate.h tests/tree.h
	@mkdir -p $(@D)
	$(CC) -std=c11 -O2 -g $(WARN) -o $@ $(HAMMER) -lxxhash

# arm64 from elsewhere: tests that need no other library, linked statically;
# tests/cli/arm64.t runs them under qemu-user.  Without a compiler it skips.
ARM64_CC ?= aarch64-linux-gnu-gcc
ARM64_AR ?= aarch64-linux-gnu-ar
# What make check runs, none of which quantises; make check-long and check-arm64
# have more.
ARM64_TESTS := $(addprefix tests/,kernel/edges kernel/matmul kernel/probe \
	kernel/rows kernel/sift golden/bits)
ARM64_LONG := $(addprefix tests/,golden/same_bits golden/logits \
	golden/odd_models golden/ref unit/gguf unit/model_bad unit/nonfinite \
	unit/pool unit/quant unit/quantize unit/sample unit/sample_methods \
	unit/session)

arm64:
	@sh tests/deps.sh arm64
	@if echo '#include <stdio.h>' | $(ARM64_CC) -E - >/dev/null 2>&1; then \
		$(MAKE) --no-print-directory $(PARALLEL) CC=$(ARM64_CC) \
		AR=$(ARM64_AR) B=$(B)/arm64 CFLAGS=-O2 LDFLAGS=-static \
		CORE=y CLI_SRC= $(if $(LONG),,QUANTIZE_SRC=) LIBS='-lm -pthread' \
		LONG=$(LONG) core-tests; fi
check-long check-arm64: LONG = y
core-tests: $(patsubst %,$(B)/%,$(ARM64_TESTS) $(if $(LONG),$(ARM64_LONG)))
	@:
check-arm64: arm64
	@B=$(B) BIN=$(BIN) sh tests/run.sh cli/arm64

bench: deps
	@$(MAKE) --no-print-directory $(PARALLEL) $(BIN)/qbench
	@BIN=$(BIN) sh tests/bench/bench.sh $(BENCH)

MODELS = demo/demo.gguf
bench-state: deps
	@$(MAKE) --no-print-directory $(PARALLEL) $(BIN)/qtok $(BIN)/qdecode \
		$(B)/tests/bench/state
	@B=$(B) BIN=$(BIN) sh tests/bench/state.sh $(MODELS)
bench-pool: deps
	@$(MAKE) --no-print-directory $(PARALLEL) $(B)/tests/bench/pool
	@$(B)/tests/bench/pool 1 2
bench-store: deps
	@$(MAKE) --no-print-directory $(PARALLEL) $(BIN)/qprefill
	@BIN=$(BIN) sh tests/bench/store.sh

SAN_asan = -fsanitize=address,undefined -fno-sanitize-recover=all \
	-fno-omit-frame-pointer
SAN_ubsan = -fsanitize=undefined -fno-sanitize-recover=all
SAN_tsan = -fsanitize=thread
asan ubsan tsan:
	@$(MAKE) --no-print-directory $(PARALLEL) B=build/$@ BIN=build/$@/bin \
		OPT= CFLAGS="-O1 -g1 $(SAN_$@)" all tests
	@B=build/$@ BIN=build/$@/bin QPIPE_SAN=$@ sh tests/run.sh

asan-tools tsan-tools:
	@$(MAKE) --no-print-directory $(PARALLEL) B=build/$(@:-tools=) \
		BIN=build/$(@:-tools=)/bin OPT= \
		CFLAGS="-O1 -g1 $(SAN_$(@:-tools=))" audited
audited: $(TOOLS) $(B)/tests/unit/fuzz_seeds
	@:

# All that can go wrong, drawn at random, within AUDIT_MINUTES=20 of which
# building is a part; tests/faults/audit.sh tells more.
audit:
	@sh tests/deps.sh audit
	@begun=$$(date +%s); \
	$(MAKE) -s --no-print-directory $(PARALLEL) all $(FAULTS) && \
	$(MAKE) -s --no-print-directory asan-tools && \
	$(MAKE) -s --no-print-directory tsan-tools && \
	AUDIT_BEGUN=$$begun B=$(B) BIN=$(BIN) sh tests/faults/audit.sh

fuzz: $(FUZZ_SRC)
	@mkdir -p build/fuzz
	@$(MAKE) --no-print-directory CC=clang B=build/fuzz/obj \
		CFLAGS="-O1 -g -fsanitize=address,fuzzer-no-link" \
		$(patsubst $(B)/%,build/fuzz/obj/%,$(ARCHIVES))
	@for f in $(FUZZ_SRC:tests/fuzz/%.c=%); do \
		echo "build/fuzz/$$f"; \
		clang -std=c11 -D_DEFAULT_SOURCE -O1 -g -fsanitize=address,fuzzer -Ilib \
		-o build/fuzz/$$f tests/fuzz/$$f.c $(MUTATE_SRC) \
		$(patsubst $(B)/%,build/fuzz/obj/%,$(ARCHIVES)) $(LIBS) $(LIBS_IMAGE) || exit 1; \
	done

deps:
	@sh tests/deps.sh

demo: deps
	@MAKE='$(MAKE)' sh demo/build.sh $(PARALLEL) B=$(B) BIN=$(BIN) CC='$(CC)'
	@BIN=$(BIN) sh demo/demo.sh

# The folders and names that install writes and uninstall removes.  The folders may
# have blanks in their names.  Documents keep the paths that they have here, for
# README.md's links.
MAN := $(sort $(notdir $(wildcard man/*.[0-9])))
UNITS := $(notdir $(sort $(wildcard share/systemd/*)))
DOCS := README.md README.zh-CN.md Dockerfile doc/measurements.md NEWS.md CONTRIBUTING.md HACKING.md SECURITY.md LICENSE \
	demo/README.md demo/demo.svg $(sort $(wildcard tests/bench/*.svg)) \
	lib/text/chat/templates/LICENSE lib/text/yyjson/LICENSE \
	$(sort $(wildcard examples/*))
DOCDIR = $(DATADIR)/doc/qpipe
BASHDIR = $(DATADIR)/bash-completion/completions
ZSHDIR = $(DATADIR)/zsh/site-functions
PYTHON := $(sort $(wildcard python/*.*))
PYTHONDIR = $(DATADIR)/qpipe/python
UNITDIR = $(PREFIX)/lib/systemd/system
TOOL_NAMES = $(notdir $(TOOLS))

# install strips symbols for debuggers; install-debug keeps them.
SYMBOLS =
STRIPPED = $(if $(SYMBOLS),:,$(STRIP) $1)

# $(call INTO,FOLDER,MODE,FILES)
INTO = mkdir -p "$(DESTDIR)$1" && install -m $2 $3 "$(DESTDIR)$1"

# What pkg-config is told of a library.
ABOUT_qwen = The engine of qpipe: Qwen language models on a CPU
ABOUT_qwentext = The text side of qpipe: tokens, chats and grammars
REQUIRES_qwentext = Requires: libqwen
PRIVATE_qwen = $(LIBS_QWEN)
PRIVATE_qwentext = $(LIBS_YYJSON) $(LIBS_UNISTRING) -lm
define INSTALL_HEADERS
$(call INTO,$(INCLUDEDIR),644,lib/qwen.h lib/qwentext.h)
	$(call INTO,$(INCLUDEDIR)/qwen,644,lib/qwen/*.h)
	$(call INTO,$(PYTHONDIR),644,$(PYTHON))
	@mkdir -p "$(DESTDIR)$(DOCDIR)" && \
		ln -sfn ../../qpipe/python "$(DESTDIR)$(DOCDIR)/python"
endef
# qchat has it from here, for the C library of a static tool brings none.
LOCALEDIR = $(DEMODIR)/locale/C.utf8
INSTALL_LOCALE = $(if $(wildcard $(LIBRARIES)/locale),$(call \
	INTO,$(LOCALEDIR),644,$(LIBRARIES)/locale/C.utf8/LC_CTYPE))
define INSTALL_WING
$(call INTO,$(LIBDIR),644,$(B)/lib$1.a)
	install -m 755 $(B)/lib$1.so "$(DESTDIR)$(LIBDIR)/lib$1.so.$(VERSION)"
	cd "$(DESTDIR)$(LIBDIR)" && $(call STRIPPED,-g lib$1.a) && \
		$(call STRIPPED,--strip-unneeded lib$1.so.$(VERSION)) && \
		ln -sf lib$1.so.$(VERSION) lib$1.so.$(SOVERSION) && \
		ln -sf lib$1.so.$(SOVERSION) lib$1.so && mkdir -p pkgconfig && \
	printf '%s\n' 'prefix=$(PREFIX)' \
		'libdir=$(subst $(PREFIX)/,$${prefix}/,$(LIBDIR))' \
		'includedir=$(subst $(PREFIX)/,$${prefix}/,$(INCLUDEDIR))' \
		'' 'Name: lib$1' 'Description: $(ABOUT_$1)' \
		'Version: $(VERSION)' '$(REQUIRES_$1)' \
		'Cflags: -I"$${includedir}"' \
		'Libs: -L"$${libdir}" -l$1' 'Libs.private: $(PRIVATE_$1)' \
		>pkgconfig/lib$1.pc

endef

install: all
	$(call INTO,$(BINDIR),755,$(TOOLS))
	@cd "$(DESTDIR)$(BINDIR)" && $(call STRIPPED,$(TOOL_NAMES))
	$(if $(STATIC),,$(INSTALL_HEADERS))
	$(foreach l,$(WINGS),$(call INSTALL_WING,$l))
	$(if $(MPI_LIB),$(call INTO,$(LIBDIR),755,$(MPI_LIB)) && \
		$(call STRIPPED,--strip-unneeded "$(DESTDIR)$(LIBDIR)/$(notdir $(MPI_LIB))"))
	@for m in $(MAN); do \
		$(call INTO,$(MANDIR)/man$${m##*.},644,man/$$m) || exit 1; done
	$(call INTO,$(DEMODIR),644,demo/demo.gguf)
	$(if $(STATIC),$(INSTALL_LOCALE))
	@for f in $(DOCS); do \
		mkdir -p "$(DESTDIR)$(DOCDIR)/$$(dirname $$f)" && \
		install -m $$([ -x $$f ] && echo 755 || echo 644) $$f \
		"$(DESTDIR)$(DOCDIR)/$$f" || exit 1; done
	$(call INTO,$(BASHDIR),644,cmd/completion/qpipe.bash)
	@cd "$(DESTDIR)$(BASHDIR)" && mv qpipe.bash qpipe && \
		for t in $(TOOL_NAMES); do ln -sf qpipe $$t || exit 1; done
	$(call INTO,$(ZSHDIR),644,cmd/completion/_qpipe)
	@mkdir -p "$(DESTDIR)$(UNITDIR)"
	@for f in $(UNITS); do \
		sed 's|@BINDIR@|$(BINDIR)|' share/systemd/$$f \
		>"$(DESTDIR)$(UNITDIR)/$$f" || exit 1; done
install-debug:
	@$(MAKE) --no-print-directory install SYMBOLS=y

# $(call REMOVE,FOLDER,NAMES)
REMOVE = if cd "$(DESTDIR)$1" 2>/dev/null; then rm -f $2; fi
uninstall:
	@$(call REMOVE,$(BINDIR),$(TOOL_NAMES))
	@$(call REMOVE,$(INCLUDEDIR),qwen.h qwentext.h $(patsubst lib/%,%,$(wildcard lib/qwen/*.h)))
	@$(call REMOVE,$(LIBDIR),$(foreach l,$(WINGS:%=lib%),$l.a $l.so \
		$l.so.$(SOVERSION) $l.so.$(VERSION) pkgconfig/$l.pc))
	@$(call REMOVE,$(LIBDIR),libqwen-mpi.so.$(SOVERSION))
	@$(call REMOVE,$(MANDIR),$(foreach m,$(MAN),man$(subst .,,$(suffix $m))/$m))
	@$(call REMOVE,$(DEMODIR),demo.gguf locale/C.utf8/LC_CTYPE)
	@$(call REMOVE,$(PYTHONDIR),$(notdir $(PYTHON)))
	@$(call REMOVE,$(BASHDIR),qpipe $(TOOL_NAMES))
	@$(call REMOVE,$(ZSHDIR),_qpipe)
	@$(call REMOVE,$(UNITDIR),$(UNITS))
	@if cd "$(DESTDIR)$(DOCDIR)" 2>/dev/null; then rm -f $(DOCS) python; \
		rmdir -p $(sort $(dir $(DOCS))) 2>/dev/null || true; fi
	@rmdir "$(DESTDIR)$(INCLUDEDIR)/qwen" "$(DESTDIR)$(PYTHONDIR)" \
		"$(DESTDIR)$(LOCALEDIR)" "$(DESTDIR)$(DEMODIR)/locale" \
		"$(DESTDIR)$(DEMODIR)" "$(DESTDIR)$(DOCDIR)" 2>/dev/null || true

# The archives of a release, in build/dist; HACKING.md has the procedure.
dist:
	@sh share/dist/source.sh build/dist $(VERSION)
dist-bin:
	@sh tests/deps.sh static
	@sh tests/deps.sh arm64
	@sh share/dist/binaries.sh build/dist $(VERSION) $(DIST_CC)
DIST_CC = gcc $(ARM64_CC)

clean:
	rm -rf build bin

.PHONY: all check check-long check-arm64 arm64 core-tests bench bench-state bench-pool \
	bench-store tests asan ubsan tsan asan-tools tsan-tools audit \
	audited fuzz deps clean demo dist dist-bin install install-debug \
	uninstall FORCE
FORCE:

-include $(QWEN_OBJ:.o=.d) $(TEXT_OBJ:.o=.d) $(SYNTH_OBJ:.o=.d) $(HUB_OBJ:.o=.d) $(MODELS_OBJ:.o=.d) $(IMAGE_OBJ:.o=.d) $(VISION_OBJ:.o=.d) $(QUANTIZE_OBJ:.o=.d) $(CLI_OBJ:.o=.d) $(CMD_SRC:%.c=$(B)/%.d) \
	$(PART_SRC:%.c=$(B)/%.d) $(REF_OBJ:.o=.d) $(TEST_SRC:%.c=$(B)/%.d) \
	$(FUZZ_OBJ:.o=.d) $(MUTATE_OBJ:.o=.d) $(MODEL_OBJ:.o=.d) \
	$(PTX:.ptx=.d) $(FAKE_OBJ:.o=.d) $(B)/tests/cuda/emu.d $(B)/tests/cuda/fake.d
