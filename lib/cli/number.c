/* SPDX-License-Identifier: ISC */
/* number.c - parsing numbers of the command line. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

int64_t
cli_int(const char *what, const char *s, int64_t min, int64_t max)
{
	const char *digits = s[0] == '-' ? s + 1 : s;
	char *end;
	long long v;

	errno = 0;
	v = strtoll(s, &end, 10);
	/* strtoll also accepts leading space and a plus sign */
	if (!isdigit((unsigned char)digits[0]) || *end != '\0')
		cli_usage("%s: not a number: '%s'", what, s);
	if (v < min && max == INT64_MAX)
		cli_usage("%s: %s is below %lld", what, s, (long long)min);
	if (errno == ERANGE || v < min || v > max)
		cli_usage("%s: %s is not in %lld..%lld", what, s,
		    (long long)min, (long long)max);
	return v;
}

uint64_t
cli_u64(const char *what, const char *s)
{
	char *end;
	unsigned long long v;

	errno = 0;
	v = strtoull(s, &end, 10);
	if (!isdigit((unsigned char)s[0]) || *end != '\0')
		cli_usage("%s: not a number: '%s'", what, s);
	if (errno == ERANGE)
		cli_usage("%s: %s is above 2^64 - 1", what, s);
	return v;
}

uint64_t
cli_bytes(const char *what, const char *s, uint64_t min)
{
	static const char units[] = "KMGT";
	char digits[32];
	size_t n = strspn(s, "0123456789"), i;
	const char *unit = strchr(units, toupper((unsigned char)s[n]));
	uint64_t v;

	if (n == 0 || n >= sizeof digits || unit == NULL || (s[n] != '\0' &&
	    s[n + 1] != '\0' && strcmp(s + n + 1, "iB") != 0))
		cli_usage("%s: '%s' is not a number of bytes, as in 500M, 20G "
		    "or 20GiB (units K, M, G, T)", what, s);
	memcpy(digits, s, n);
	digits[n] = '\0';
	v = cli_u64(what, digits);
	for (i = 0; s[n] != '\0' && i <= (size_t)(unit - units); i++) {
		if (v > UINT64_MAX / 1024)
			cli_usage("%s: %s is above 2^64 - 1", what, s);
		v *= 1024;
	}
	if (v < min)
		cli_usage("%s: %s is below %llu", what, s,
		    (unsigned long long)min);
	return v;
}

double
cli_double(const char *what, const char *s, double min, double max)
{
	char *end;
	double v;

	/* rejects space, hexadecimal, inf and nan */
	if (s[0] == '\0' || s[strspn(s, "0123456789.eE+-")] != '\0' ||
	    strpbrk(s, "0123456789") == NULL || s[0] == '+')
		cli_usage("%s: not a number: '%s'", what, s);
	errno = 0;
	v = strtod(s, &end);
	if (*end != '\0')
		cli_usage("%s: not a number: '%s'", what, s);
	/* a number too small for a double is 0 */
	if (!(v >= min && v <= max))
		cli_usage("%s: %s is not in %g..%g", what, s, min, max);
	return v;
}

int
cli_next_word(const char **s, char *word, size_t size)
{
	size_t n;

	if (*s == NULL)
		return 0;
	n = strcspn(*s, ",");
	snprintf(word, size, "%.*s", (int)(n < size ? n : size - 1), *s);
	*s = (*s)[n] == ',' ? *s + n + 1 : NULL;
	return 1;
}
