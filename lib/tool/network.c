/* SPDX-License-Identifier: ISC */
/*
 * network.c - what a static tool does itself to reach other machines: a shared C
 * library or libcurl knows it of the system that it was made for.
 */
#include <unistd.h>

#include "cli/cli.h"
#include "tool/tool.h"

#ifdef QPIPE_STATIC
#include <nss.h>

/*
 * Names are looked up in files and by DNS.  For other ways, which nsswitch.conf may
 * name, the C library would load shared objects made for another C library.
 */
void
tool_network_init(void)
{
	if (__nss_configure_lookup("hosts", "files dns") != 0 ||
	    __nss_configure_lookup("services", "files") != 0)
		die("cannot set up the lookup of host names");
}

const char *
tool_ca_file(void)
{
	static const char *const files[] = {
		"/etc/ssl/certs/ca-certificates.crt",	/* Debian, Arch, Alpine */
		"/etc/pki/tls/certs/ca-bundle.crt",	/* Fedora */
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
		"/etc/ssl/ca-bundle.pem",		/* openSUSE */
		"/var/lib/ca-certificates/ca-bundle.pem",
		"/etc/ssl/cert.pem",
	};
	const char *env = cli_env("SSL_CERT_FILE");
	size_t i;

	if (env != NULL)
		return env;
	for (i = 0; i < sizeof files / sizeof files[0]; i++) {
		if (access(files[i], R_OK) == 0)
			return files[i];
	}
	return NULL;
}

#else

void
tool_network_init(void)
{
}

const char *
tool_ca_file(void)
{
	return NULL;
}
#endif
