/* SPDX-License-Identifier: Apache-2.0 */
/* The options on manifest, profile and engine that several commands share. */
#ifndef RINGSUM_TOOL_READ_OPTIONS_H
#define RINGSUM_TOOL_READ_OPTIONS_H

#include "arguments.h"
#include "ringsum.h"

/*
 * For commands whose arguments begin with a struct ringsum_options: these rows go to its members.
 */
extern const struct option_row read_option_rows[];

#endif
