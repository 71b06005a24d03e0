/* SPDX-License-Identifier: Apache-2.0 */
/* Fills a refusal. */
#include "refusal.h"

#include <stdarg.h>
#include <string.h>

int rsum_refusal_set(struct rsum_refusal *refusal, enum ringsum_finding_code code,
		     const char *format, ...)
{
	va_list args;

	refusal->code = code;
	refusal->expected[0] = '\0';
	refusal->actual[0] = '\0';
	va_start(args, format);
	vsnprintf(refusal->message, sizeof(refusal->message), format, args);
	va_end(args);
	return RINGSUM_E_REFUSED;
}

void rsum_refusal_add_count(struct rsum_refusal *refusal, uint64_t count, const char *one,
			    const char *many)
{
	size_t length = strlen(refusal->message), room;
	char text[96];

	if (count == 0)
		return;
	snprintf(text, sizeof(text), "; %llu %s", (unsigned long long)count,
		 count == 1 ? one : many);
	room = sizeof(refusal->message) - strlen(text) - 1;
	/* Cut before a character, never within one. */
	while (length > room ||
	       (length == room && ((uint8_t)refusal->message[length] & 0xc0) == 0x80))
		length--;
	memcpy(refusal->message + length, text, strlen(text) + 1);
}
