/* SPDX-License-Identifier: ISC */
/* class.c - the class of a character, from the runs of unicode.c. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "text/token/unicode.h"

#define O QWEN_CLASS_OTHER
#define L QWEN_CLASS_LETTER
#define N QWEN_CLASS_NUMBER
#define S QWEN_CLASS_SPACE
#define E QWEN_CLASS_NEWLINE

const unsigned char qwen_unicode_ascii[128] = {
	O,O,O,O,O,O,O,O, O,S,E,S,S,E,O,O, O,O,O,O,O,O,O,O, O,O,O,O,O,O,O,O,
	S,O,O,O,O,O,O,O, O,O,O,O,O,O,O,O, N,N,N,N,N,N,N,N, N,N,O,O,O,O,O,O,
	O,L,L,L,L,L,L,L, L,L,L,L,L,L,L,L, L,L,L,L,L,L,L,L, L,L,L,O,O,O,O,O,
	O,L,L,L,L,L,L,L, L,L,L,L,L,L,L,L, L,L,L,L,L,L,L,L, L,L,L,O,O,O,O,O,
};

/* By code point, written once; of most pages nothing is ever touched. */
static unsigned char class_of[0x110000];
static atomic_int there;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void
fill(void)
{
	const uint32_t *run;
	size_t c = 0x80;

	for (run = qwen_unicode_run; *run != 0; c += *run++ / 8) {
		if (*run % 8 != QWEN_CLASS_OTHER)
			memset(class_of + c, (int)(*run % 8), *run / 8);
	}
	atomic_store_explicit(&there, 1, memory_order_release);
}

enum qwen_class
qwen_unicode_class(uint32_t c)
{
	if (!atomic_load_explicit(&there, memory_order_acquire))
		pthread_once(&once, fill);
	return (enum qwen_class)class_of[c];
}
