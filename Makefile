# qpipe: one non-recursive GNU Makefile.
#
#   make            every tool into bin/, libqwen into build/
#   make demo       install what is missing, build, run the pipeline
#   make check      all tests (TAP), closing with "N passed, N failed"
#   make check-long the long ones too
#   make asan ubsan tsan   the tests under a sanitizer
#   make fuzz       libFuzzer targets (clang) into build/fuzz/
#   make install    PREFIX=/usr/local DESTDIR=

VERSION = 0.1.0
SOVERSION = 0
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR ?= $(PREFIX)/share/man
DATADIR ?= $(PREFIX)/share

CC ?= cc
CFLAGS ?= -O2 -g
# B: objects and libraries; BIN: the tools.
B ?= build
BIN ?= bin

WARN = -Wall -Wextra -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes
# Numerics are a contract (man/qwen-numerics.7): no contraction, no fast-math.
ALL_CFLAGS = -std=c11 -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -fPIC \
	-ffp-contract=off -fno-math-errno -pthread $(WARN) -Ilib -I$(B) $(CFLAGS)
LIBS = -lcbor -lzstd -lxxhash -lm -pthread

ISA_DIR := $(patsubst x86_64%,x86,$(shell uname -m))

# What is collected by name, so that a new file is all that a new one needs.
KERN := $(sort $(wildcard lib/kernel/generic/*_*.c lib/kernel/$(ISA_DIR)/*_*.c))
QUANT := $(filter-out lib/quant/quant.c,$(sort $(wildcard lib/quant/*.c)))
ARCH := $(sort $(wildcard lib/model/arch_*.c))
SAMP := $(filter-out lib/sample/chain.c lib/sample/cands.c,$(sort $(wildcard lib/sample/*.c)))

LIB_SRC := $(sort $(wildcard lib/base/*.c lib/gguf/*.c lib/quant/*.c \
	lib/kernel/*.c lib/model/*.c lib/token/*.c lib/sample/*.c \
	lib/state/*.c lib/wire/*.c) $(KERN))
CLI_SRC := $(sort $(wildcard lib/cli/*.c))
CMD_SRC := $(sort $(wildcard cmd/*.c))
REF_SRC := $(sort $(wildcard tests/ref/*.c))
TEST_SRC := $(sort $(wildcard tests/unit/*.c tests/kernel/*.c tests/golden/*.c))
FUZZ_SRC := $(sort $(wildcard tests/fuzz/fuzz_*.c))

LIB_OBJ := $(LIB_SRC:%.c=$(B)/%.o)
CLI_OBJ := $(CLI_SRC:%.c=$(B)/%.o)
REF_OBJ := $(REF_SRC:%.c=$(B)/%.o)
TOOLS := $(CMD_SRC:cmd/%.c=$(BIN)/%)
TESTS := $(TEST_SRC:%.c=$(B)/%)

all: $(TOOLS) $(B)/libqwen.a $(B)/libqwen.so

$(BIN)/%: $(B)/cmd/%.o $(B)/libcli.a $(B)/libqwen.a
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(B)/libqwen.a: $(LIB_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^
$(B)/libcli.a: $(CLI_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^
$(B)/libref.a: $(REF_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^
$(B)/libqwen.so: $(LIB_OBJ)
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -shared -Wl,-soname,libqwen.so.$(SOVERSION) \
		-o $@ $^ $(LIBS)

# Instruction-set flags by file-name suffix; a new set adds a line.
$(B)/%_avx2.o: ISA = -mavx2 -mfma -mf16c
$(B)/%_avx512vnni.o: ISA = -mavx512f -mavx512bw -mavx512vl -mavx512dq \
	-mavx512vnni -mfma -mf16c
$(B)/lib/kernel/%.o: OPT = -O3

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(OPT) $(ISA) -MMD -MP -c -o $@ $<

# Lists of variants, formats, architectures, samplers: one line a file,
# rewritten only when the list changes.
$(B)/kernels.inc: LIST = $(foreach f,$(KERN),KERNEL(qwen_$(basename $(notdir $f))))
$(B)/quants.inc: LIST = $(foreach f,$(QUANT),QUANT(qwen_quant_$(basename $(notdir $f))))
$(B)/archs.inc: LIST = $(foreach f,$(ARCH),ARCH(qwen_$(basename $(notdir $f))))
$(B)/samplers.inc: LIST = $(foreach f,$(SAMP),SAMPLER(qwen_sampler_$(basename $(notdir $f))))
$(B)/kernels.inc $(B)/quants.inc $(B)/archs.inc $(B)/samplers.inc: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' $(foreach l,$(LIST),'$l') >$@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
$(B)/lib/kernel/dispatch.o: $(B)/kernels.inc
$(B)/lib/quant/quant.o: $(B)/quants.inc
$(B)/lib/model/arch.o: $(B)/archs.inc
$(B)/lib/sample/chain.o: $(B)/samplers.inc

# Tests: every tests/{unit,kernel,golden}/*.c is a TAP program, every
# tests/cli/*.t a TAP shell script.
$(TESTS): $(B)/%: $(B)/%.o $(B)/libref.a $(B)/libcli.a $(B)/libqwen.a
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $< $(B)/libref.a $(B)/libcli.a $(B)/libqwen.a $(LIBS)

check: deps
	@$(MAKE) --no-print-directory all tests
	@B=$(B) BIN=$(BIN) sh tests/run.sh
check-long: deps
	@$(MAKE) --no-print-directory all tests
	@B=$(B) BIN=$(BIN) QPIPE_LONG=1 sh tests/run.sh
tests: $(TESTS)

SAN_asan = -fsanitize=address -fno-omit-frame-pointer
SAN_ubsan = -fsanitize=undefined -fno-sanitize-recover=all
SAN_tsan = -fsanitize=thread
asan ubsan tsan:
	@$(MAKE) --no-print-directory B=build/$@ BIN=build/$@/bin \
		CFLAGS="-O1 -g $(SAN_$@)" all tests
	@B=build/$@ BIN=build/$@/bin QPIPE_SAN=$@ sh tests/run.sh

fuzz: $(FUZZ_SRC)
	@mkdir -p build/fuzz
	@$(MAKE) --no-print-directory CC=clang B=build/fuzz/obj \
		CFLAGS="-O1 -g -fsanitize=address,fuzzer-no-link" build/fuzz/obj/libqwen.a
	@for f in $(FUZZ_SRC:tests/fuzz/%.c=%); do \
		echo "build/fuzz/$$f"; \
		clang -std=c11 -D_DEFAULT_SOURCE -O1 -g -fsanitize=address,fuzzer -Ilib \
		-o build/fuzz/$$f tests/fuzz/$$f.c build/fuzz/obj/libqwen.a $(LIBS) || exit 1; \
	done

deps:
	@sh tests/deps.sh

clean:
	rm -rf build bin

.PHONY: all check check-long tests asan ubsan tsan fuzz deps clean demo \
	install uninstall FORCE
FORCE:

-include $(LIB_OBJ:.o=.d) $(CLI_OBJ:.o=.d) $(CMD_SRC:%.c=$(B)/%.d) \
	$(REF_OBJ:.o=.d) $(TEST_SRC:%.c=$(B)/%.d)
