/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mkdelivery: what its files share. The tool makes drafter deliveries with real names, dtypes and
 * relations of shapes, and damages them on request. It shares no code with the library on purpose:
 * it is the oracle of the tests. It is a tool for tests and benchmarks, so a failure ends it.
 */
#ifndef MKDELIVERY_H
#define MKDELIVERY_H

#include <json-c/json.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define MD_MANIFEST "TENSORS.json"
#define MD_CONFIG "config.json"
#define MD_PLAN "exl3_moe_plan.json"
#define MD_MAIN_LAYERS 40
#define MD_HEAD_K 6
#define MD_DIGEST_BYTES 32

/* The numbers of config.json that the shapes follow from. */
struct md_dims {
	uint64_t hidden;
	uint64_t inter;
	uint64_t vocab;
	uint64_t heads;
	uint64_t head_dim;
	uint64_t q_lora;
	uint64_t o_lora;
	uint64_t o_groups;
	uint64_t markov_rank;
	uint64_t hc_mult;
	uint64_t stages;
	uint64_t experts;
};

struct md_tensor {
	char *name;
	const char *dtype;
	unsigned rank;
	uint64_t shape[3];
	uint64_t size_bytes;
	bool marker;	       /* an EXL3 mul1 marker: fixed bytes */
	size_t shard;	       /* index */
	uint64_t begin;	       /* in the shard's data */
	unsigned source_file;  /* number of the shard in the made-up source */
	uint64_t source_begin; /* in that file */
	uint8_t digest[MD_DIGEST_BYTES];
};

struct md_shard {
	char name[72];
	size_t first; /* index of its first tensor; its tensors are neighbours */
	size_t count;
	uint64_t data_start; /* in the file */
	uint64_t data_bytes;
};

struct md_delivery {
	const char *dir;
	struct md_dims dims;
	bool sparse;	/* valid headers, no data, invented digests, no profile */
	bool unaligned; /* data starts at an odd offset */
	bool shuffle;	/* entries of the manifest in random order */
	uint64_t shuffle_seed;
	uint64_t seed;
	uint64_t header_bytes_min; /* pad headers to this */
	unsigned threads;
	size_t tensor_count;
	size_t tensor_capacity;
	struct md_tensor *tensors;
	size_t shard_count;
	struct md_shard *shards;
	uint64_t bytes_total;
};

/* mkdelivery.c */
__attribute__((noreturn, format(printf, 1, 2))) void md_die(const char *fmt, ...);
void *md_alloc(size_t count, size_t size);
uint64_t md_mix(uint64_t x);
uint64_t md_parse_u64(const char *text, const char *what);
char *md_path(const char *dir, const char *name);

/* catalogue.c: which tensors there are, and how they fall into shards */
void md_dims_named(const char *scale, struct md_dims *dims_out);
int md_dense_k(const char *linear);
void md_dense_write_json(FILE *out);
void md_catalogue_build(struct md_delivery *delivery);
void md_catalogue_build_sparse(struct md_delivery *delivery, uint64_t tensor_count);
void md_catalogue_split(struct md_delivery *delivery);

/* shards.c: headers and data */
void md_shards_write(struct md_delivery *delivery);
void md_sha256(const void *bytes, size_t size, uint8_t digest_out[MD_DIGEST_BYTES]);
void md_hex(const uint8_t digest[MD_DIGEST_BYTES], char hex_out[2 * MD_DIGEST_BYTES + 1]);

/* documents.c: the three JSON files */
void md_documents_write(const struct md_delivery *delivery);

/* damage.c: what all kinds of damage share, and the table of kinds */
struct md_damage {
	const char *dir;
	uint64_t random; /* advanced by each draw */
	json_object *manifest;
	json_object *tensors; /* the list in `manifest` */
	bool manifest_changed;
};

struct md_entry {
	json_object *object;
	size_t index;
	const char *name;
	const char *file;
	uint64_t begin; /* in the file */
	uint64_t end;
};

void md_damage_apply(const char *dir, uint64_t seed, char **kinds, size_t count);
void md_damage_help(FILE *out);
uint64_t md_damage_draw(struct md_damage *damage, uint64_t below);
struct md_entry md_entry_at(struct md_damage *damage, size_t index);
struct md_entry md_entry_find(struct md_damage *damage, const char *name, const char *suffix);
const char *md_shard_find(struct md_damage *damage, const char *arg);
int md_file_open(struct md_damage *damage, const char *name, uint64_t *size_out);
void md_read_at(int fd, void *bytes, size_t size, uint64_t offset);
void md_write_at(int fd, const void *bytes, size_t size, uint64_t offset);
json_object *md_json_load(const char *dir, const char *name);
void md_json_store(const char *dir, const char *name, json_object *object);
void md_entry_set_digest(struct md_damage *damage, const struct md_entry *entry, const char *hex);
void md_entry_move(struct md_damage *damage, const struct md_entry *entry, int64_t by);

/* One kind of damage: args is NULL-terminated, at most three. Each prints one line. */
typedef void (*md_damage_fn)(struct md_damage *damage, char **args);

/* damage_shards.c: bytes and files */
void md_damage_flip(struct md_damage *damage, char **args);
void md_damage_zero(struct md_damage *damage, char **args);
void md_damage_swap(struct md_damage *damage, char **args);
void md_damage_mul1(struct md_damage *damage, char **args);
void md_damage_truncate(struct md_damage *damage, char **args);
void md_damage_extend(struct md_damage *damage, char **args);
void md_damage_remove(struct md_damage *damage, char **args);
void md_damage_fifo(struct md_damage *damage, char **args);
void md_damage_symlink_out(struct md_damage *damage, char **args);
void md_damage_lfs_pointer(struct md_damage *damage, char **args);
void md_damage_html(struct md_damage *damage, char **args);
void md_damage_unpromised_file(struct md_damage *damage, char **args);

/* damage_headers.c: headers of shards */
void md_damage_header_shape(struct md_damage *damage, char **args);
void md_damage_header_dtype(struct md_damage *damage, char **args);
void md_damage_header_garbage(struct md_damage *damage, char **args);
void md_damage_unpromised_tensor(struct md_damage *damage, char **args);

/* damage_documents.c: manifest, config, plan */
void md_damage_drop_entry(struct md_damage *damage, char **args);
void md_damage_add_entry(struct md_damage *damage, char **args);
void md_damage_dup_entry(struct md_damage *damage, char **args);
void md_damage_digest(struct md_damage *damage, char **args);
void md_damage_config(struct md_damage *damage, char **args);
void md_damage_codebook(struct md_damage *damage, char **args);
void md_damage_plan_codebook(struct md_damage *damage, char **args);

#endif
