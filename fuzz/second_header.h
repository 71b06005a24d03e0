/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of a shard's header, said a second time, on json-c's tree. */
#ifndef FUZZ_SECOND_HEADER_H
#define FUZZ_SECOND_HEADER_H

#include "fuzz.h"

/*
 * Whether a header whose JSON came to `root` is sound, were the file as long as it says:
 * *data_bytes_out. Right where fuzz_json_c_is_exact() for its text.
 */
bool fuzz_header_is_sound(struct json_object *root, uint64_t header_bytes,
			  uint64_t *data_bytes_out);

#endif
