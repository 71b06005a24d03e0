/* SPDX-License-Identifier: Apache-2.0 */
/*
 * EXL3 linears. A linear `prefix` is four tensors: prefix.trellis, the packed weights; prefix.suh
 * and prefix.svh, scales of its inputs and outputs; prefix.mul1, the marker of its codebook.
 */
#ifndef RSUM_EXL3_H
#define RSUM_EXL3_H

#include "base.h"
#include "manifest.h"
#include "report.h"

/* Rule E3: the first little-endian word of mul1. */
#define RSUM_EXL3_MUL1_WORD UINT32_C(0x83DCD12D)

enum rsum_exl3_part {
	RSUM_EXL3_TRELLIS,
	RSUM_EXL3_SUH,
	RSUM_EXL3_SVH,
	RSUM_EXL3_MUL1,
	RSUM_EXL3_PART_COUNT
};

extern const char *const rsum_exl3_part_names[RSUM_EXL3_PART_COUNT];

/*
 * Checks what the promises say of a linear (E1, E2, and that mul1 has a first word). `found` has
 * the promise index of each part, or RSUM_NAME_INDEX_NONE: such a part, and one whose promise is
 * not well-formed, has its finding already and is not looked at. Sets refused[index] of a part
 * at fault and adds a finding (exl3-invalid).
 */
void rsum_exl3_check(const struct rsum_manifest *manifest,
		     const uint32_t found[RSUM_EXL3_PART_COUNT], bool *refused,
		     struct ringsum_report *report);

#endif
