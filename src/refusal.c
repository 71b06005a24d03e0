/* SPDX-License-Identifier: Apache-2.0 */
/* Fills a refusal. */
#include "refusal.h"

#include <stdarg.h>

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
