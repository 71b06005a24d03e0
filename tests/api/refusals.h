/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A way to break a sound drafter delivery, and what ringsum has to say of it. The tables are in
 * refusals_documents.h and refusals_shards.h; what a text cannot break is broken by an act.
 */
#ifndef TESTS_API_REFUSALS_H
#define TESTS_API_REFUSALS_H

#include "drafter.h"
#include "ringsum.h"

enum place {
	NOWHERE, /* acts alone */
	IN_CONFIG,
	IN_PLAN,
	IN_MANIFEST,
	IN_ENTRY, /* the manifest's, of one tensor */
	IN_HEADER,
	IN_BOTH, /* in the entry and in the header, alike */
};

/* Instead of a number of tensors: */
#define ALL_OF_SHARD_0 (-1)
#define ALL_OF_SHARD_1 (-2)
#define NO_PROMISES (-3) /* nothing in the manifest is used */

struct refusal {
	const char *name;

	/* the fault: a text replaced, then what is done in memory, then what is done on disk */
	enum place place;
	const char *where; /* a tensor; for a document the text to look behind, or NULL */
	const char *find;
	const char *replace;
	void (*in_memory)(struct drafter *drafter, const struct refusal *refusal);
	void (*on_disk)(const struct drafter *drafter, const struct refusal *refusal);
	const char *argument; /* of the act, as is the number */
	uint64_t number;

	/* what is said */
	enum ringsum_finding_code code;
	const char *tensor; /* that the finding names, or NULL */
	const char *file;   /* that the finding names, or NULL */
	const char *says;   /* part of its message, expected or actual */
	unsigned findings;  /* all that decide; 0 stands for 1 */
	int refused;	    /* tensors; all others are identical */

	bool needs_profile;	 /* a rule of the profile: without it the delivery is identical */
	bool is_profile_ordered; /* the profile is asked for, not chosen by the manifest */
};

#endif
