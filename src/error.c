/* SPDX-License-Identifier: Apache-2.0 */
/* Error codes and texts. */
#include "error.h"

#include <stdarg.h>
#include <string.h>

/*
 * Makes one line for a terminal of a message, whatever names are in it: control characters become
 * '?', and a character that was cut in two at the end goes.
 */
static void make_plain(char *message, bool is_cut)
{
	size_t length = strlen(message), i;

	while (is_cut && length > 0 && ((uint8_t)message[length - 1] & 0xc0) == 0x80)
		length--;
	if (is_cut && length > 0 && (uint8_t)message[length - 1] >= 0xc0)
		length--;
	message[length] = '\0';
	for (i = 0; i < length; i++) {
		uint8_t byte = (uint8_t)message[i];

		if (byte < 0x20 || byte == 0x7f)
			message[i] = '?';
		/* U+0080 to U+009F, which some terminals obey as well */
		else if (byte == 0xc2 && (uint8_t)message[i + 1] >> 5 == 4)
			message[i] = message[i + 1] = '?';
	}
}

RSUM_PRINTF(2, 0)
static void set_message(struct ringsum_error *err, const char *format, va_list args)
{
	int length = vsnprintf(err->message, sizeof(err->message), format, args);

	make_plain(err->message, length >= (int)sizeof(err->message));
}

int rsum_error_set(struct ringsum_error *err, int code, const char *format, ...)
{
	va_list args;

	if (!err)
		return code;
	err->code = code;
	err->os_errno = 0;
	va_start(args, format);
	set_message(err, format, args);
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
	set_message(err, format, args);
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
