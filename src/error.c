/* SPDX-License-Identifier: Apache-2.0 */
/* Error codes and texts. */
#include "error.h"

#include <stdarg.h>
#include <string.h>

int rsum_error_set(struct ringsum_error *err, int code, const char *format, ...)
{
	va_list args;

	if (!err)
		return code;
	err->code = code;
	err->os_errno = 0;
	va_start(args, format);
	vsnprintf(err->message, sizeof(err->message), format, args);
	va_end(args);
	return code;
}

int rsum_error_set_errno(struct ringsum_error *err, int code, int os_errno, const char *format, ...)
{
	char buffer[128];
	size_t used;
	va_list args;

	if (!err)
		return code;
	err->code = code;
	err->os_errno = os_errno;
	va_start(args, format);
	vsnprintf(err->message, sizeof(err->message), format, args);
	va_end(args);
	used = strlen(err->message);
	snprintf(err->message + used, sizeof(err->message) - used, ": %s",
		 strerror_r(os_errno, buffer, sizeof(buffer)));
	return code;
}

RSUM_PUBLIC const char *ringsum_result_text(int result)
{
	switch (result) {
	case RINGSUM_OK:
		return "success";
	case RINGSUM_E_INVALID:
		return "invalid argument";
	case RINGSUM_E_REFUSED:
		return "refused: something differs from the promise";
	case RINGSUM_E_UNDECIDED:
		return "undecided: not everything could be read";
	case RINGSUM_E_NOMEM:
		return "out of memory";
	case RINGSUM_E_IO:
		return "the system refused an operation";
	case RINGSUM_E_NOPROMISE:
		return "nothing there promises anything";
	case RINGSUM_E_LIMIT:
		return "a limit was exceeded";
	case RINGSUM_E_CANCELED:
		return "canceled";
	case RINGSUM_E_NOTFOUND:
		return "no such name";
	default:
		return "unknown result";
	}
}

RSUM_PUBLIC const char *ringsum_version(void)
{
	return RSUM_VERSION;
}
