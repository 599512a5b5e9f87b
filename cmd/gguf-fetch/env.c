/* SPDX-License-Identifier: ISC */
/* env.c - endpoints and tokens from the environment. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "gguf-fetch.h"

const char *
fetch_env(const char *name)
{
	const char *s = getenv(name);

	return s != NULL && s[0] != '\0' ? s : NULL;
}

char *
fetch_endpoint(const char *variable, const char *usual)
{
	const char *s = fetch_env(variable), *p;
	char *url;
	size_t n;

	if (s == NULL)
		return cli_check_alloc(strdup(usual));
	for (p = s; *p != '\0' && isgraph((unsigned char)*p) &&
	    strchr("@?#\\\"", *p) == NULL; p++)
		;
	if (strncasecmp(s, "https://", 8) != 0 || s[8] == '\0' ||
	    s[8] == '/' || *p != '\0')
		/* the address may have a password, so it is not printed */
		die("%s is not an address that begins with https://%s", variable,
		    strchr(s, '@') != NULL ? ", or it has a '@'" : "");
	url = cli_check_alloc(strdup(s));
	n = strlen(url);
	if (url[n - 1] == '/')
		url[n - 1] = '\0';
	return url;
}

char *
fetch_token(const char *text, const char *what)
{
	const char *p;
	char *token;
	size_t n;

	if (text == NULL)
		return NULL;
	text += strspn(text, " \t\r\n");
	for (n = strlen(text); n > 0 && isspace((unsigned char)text[n - 1]); n--)
		;
	if (n == 0)
		return NULL;
	token = cli_check_alloc(strndup(text, n));
	for (p = token; *p != '\0'; p++) {
		if (!isgraph((unsigned char)*p) || *p == ';')
			die("%s is not a token: it has blanks or unprintable "
			    "characters", what);
	}
	return token;
}
