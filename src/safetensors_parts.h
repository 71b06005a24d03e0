/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the safetensors module share, and nobody else sees. */
#ifndef RSUM_SAFETENSORS_PARTS_H
#define RSUM_SAFETENSORS_PARTS_H

#include "safetensors.h"

#define RSUM_SAFETENSORS_LENGTH_BYTES 8 /* of the number before the header */
#define RSUM_SHOWN_NAME_BYTES 112

/* A name for a message: quoted, control characters escaped, cut where it is long. */
const char *rsum_safetensors_show(const char *name, char buffer[RSUM_SHOWN_NAME_BYTES]);

/*
 * Reads out->text, of out->header_bytes, into the tables of *out: not yet sorted, offsets not
 * yet moved by data_begin, nothing checked against anything else. Returns as
 * rsum_safetensors_parse does.
 */
RSUM_MUST_CHECK int rsum_safetensors_read(struct rsum_safetensors *out,
					  struct rsum_refusal *refusal);

#endif
