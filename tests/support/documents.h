/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small sound drafter delivery as texts, to be broken by tests. The names are spelled out here
 * a second time, so that the profile's own list is compared with something.
 */
#ifndef TESTS_SUPPORT_DOCUMENTS_H
#define TESTS_SUPPORT_DOCUMENTS_H

#include <stddef.h>

#define DOCUMENT_LAYERS 2 /* num_hidden_layers of every config */

/* A tensor of such a delivery, in the order of the reference. */
struct document_tensor {
	char *name;	   /* owned */
	const char *dtype; /* as the format spells it */
	const char *shape; /* as JSON */
	unsigned size_bytes;
};

/* All texts come from malloc; a test that runs out of memory is aborted. */
char *document_config(unsigned stages, unsigned experts);
char *document_plan(void);

/* Entries in the order of the reference, or shuffled where seed is not 0. */
char *document_manifest(unsigned stages, unsigned experts, unsigned seed);

/* How many tensors that manifest promises. */
size_t document_tensor_count(unsigned stages, unsigned experts);

/* Those tensors themselves. Ownership: document_tensors_free. */
struct document_tensor *document_tensors(unsigned stages, unsigned experts, size_t *count_out);
void document_tensors_free(struct document_tensor *tensors, size_t count);

/* A manifest's entry, and a manifest of entries, which it shuffles by the seed and frees. */
char *document_entry(const struct document_tensor *tensor, const char *file,
		     unsigned long long begin, const char *sha256);
char *document_manifest_of(char **entries, size_t count, unsigned seed);

/*
 * Replaces the first `find` behind the first `after` (NULL: from the start) and returns the new
 * text; the old one is freed. Aborts where either is not there: a test that edits nothing lies.
 */
char *document_edit(char *text, const char *after, const char *find, const char *replace);

/* Like document_edit, within the entry of one tensor; `find` NULL stands for the whole entry. */
char *document_edit_entry(char *text, const char *tensor, const char *find, const char *replace);

#endif
