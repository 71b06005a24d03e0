/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals while a command reads. SIGINT, SIGTERM and SIGHUP ask to stop; a second one ends the
 * process as if it had never been caught. SIGUSR1 asks for a line on how far it is.
 */
#ifndef RINGSUM_TOOL_SIGNALS_H
#define RINGSUM_TOOL_SIGNALS_H

/* Catches them. Returns a descriptor that can be read from after each, or -1 where none is had. */
int signals_catch(void);

/* What empties that descriptor, and what makes it readable as a signal would. */
void signals_drain(void);
void signals_wake(void);

/* The signal that asked to stop, or 0. */
int signals_stop_wanted(void);

/* Whether it came since the last call: a line is wanted; the process was stopped and goes on. */
int signals_take_line(void);
int signals_take_resumed(void);

/* A file that a second signal removes before it ends the process. NULL: none any more. */
void signals_remove_at_death(const char *path);
void signals_remove_now(void);

/* From now on the signals that ask to stop end the process. */
void signals_end_at_once(void);

#endif
