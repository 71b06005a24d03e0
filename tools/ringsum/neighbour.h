/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the commands that read as much as there is, and can make way for others. */
#ifndef RINGSUM_TOOL_NEIGHBOUR_H
#define RINGSUM_TOOL_NEIGHBOUR_H

#include "arguments.h"
#include "ringsum.h"

/* For commands whose arguments begin with a struct ringsum_options, as read_option_rows. */
extern const struct option_row neighbour_option_rows[];

/*
 * Where --idle was given, gives the calling thread, and those that it starts, the lowest
 * priorities. What the system refuses is told on stderr; the command goes on all the same.
 */
void neighbour_make_idle(const struct ringsum_options *options, const struct command *command);

#endif
