/* SPDX-License-Identifier: Apache-2.0 */
/* Damage to what the JSON documents say. */
#include "mkdelivery.h"

#include <stdlib.h>
#include <string.h>

static void say_entry(const char *name, const struct md_entry *entry)
{
	printf(" tensor=%s file=%s shard=%s", name, MD_MANIFEST, entry->file);
}

void md_damage_drop_entry(struct md_damage *damage, char **args)
{
	struct md_entry entry = md_entry_find(damage, args[0], "");

	say_entry(entry.name, &entry);
	json_object_array_del_idx(damage->tensors, entry.index, 1);
	damage->manifest_changed = true;
}

static json_object *entry_copy(const struct md_entry *entry)
{
	json_object *copy = NULL;

	if (json_object_deep_copy(entry->object, &copy, NULL))
		md_die("out of memory for an entry");
	return copy;
}

/* A promise like another, under a name that no header knows. */
void md_damage_add_entry(struct md_damage *damage, char **args)
{
	struct md_entry entry = md_entry_find(damage, NULL, "");
	json_object *copy = entry_copy(&entry);

	json_object_object_add(copy, "name", json_object_new_string(args[0]));
	json_object_array_add(damage->tensors, copy);
	damage->manifest_changed = true;
	say_entry(args[0], &entry);
}

void md_damage_dup_entry(struct md_damage *damage, char **args)
{
	struct md_entry entry = md_entry_find(damage, args[0], "");

	json_object_array_add(damage->tensors, entry_copy(&entry));
	damage->manifest_changed = true;
	say_entry(entry.name, &entry);
}

void md_damage_digest(struct md_damage *damage, char **args)
{
	struct md_entry entry = md_entry_find(damage, args[0], "");
	json_object *was = json_object_object_get(entry.object, "source_byte_range_sha256");
	char *hex = strdup(was ? json_object_get_string(was) : "");

	if (!hex || strlen(hex) != 2 * MD_DIGEST_BYTES)
		md_die("%s has no promised digest to change", entry.name);
	hex[7] = hex[7] == '0' ? '1' : '0';
	md_entry_set_digest(damage, &entry, hex);
	/* Found where the bytes are. */
	printf(" tensor=%s file=%s promised=%s", entry.name, entry.file, hex);
	free(hex);
}

/* Sets `key` to JSON or, where `value` is no JSON, to that text; NULL deletes it. */
static void set(json_object *object, const char *key, const char *value)
{
	enum json_tokener_error error = json_tokener_success;
	json_object *parsed;

	if (!value) {
		json_object_object_del(object, key);
		return;
	}
	parsed = json_tokener_parse_verbose(value, &error);
	if (error != json_tokener_success)
		parsed = json_object_new_string(value);
	json_object_object_add(object, key, parsed);
}

/*
 * A path into config.json: components end at a dot, but where the rest as it stands is a key
 * ("attn.wq_a") it is that key.
 */
void md_damage_config(struct md_damage *damage, char **args)
{
	json_object *config = md_json_load(damage->dir, MD_CONFIG);
	json_object *object = config;
	char *value = args[0];
	char *key = strsep(&value, "=");

	printf(" file=%s key=%s value=%s", MD_CONFIG, key, value ? value : "(deleted)");
	while (!json_object_object_get_ex(object, key, NULL) && strchr(key, '.')) {
		const char *component = strsep(&key, ".");

		if (!json_object_object_get_ex(object, component, &object) ||
		    !json_object_is_type(object, json_type_object))
			md_die("%s has no object '%s'", MD_CONFIG, component);
	}
	set(object, key, value);
	md_json_store(damage->dir, MD_CONFIG, config);
	json_object_put(config);
}

void md_damage_codebook(struct md_damage *damage, char **args)
{
	set(damage->manifest, "codebook", args[0]);
	damage->manifest_changed = true;
	printf(" file=%s codebook=%s", MD_MANIFEST, args[0] ? args[0] : "(deleted)");
}

void md_damage_plan_codebook(struct md_damage *damage, char **args)
{
	json_object *plan = md_json_load(damage->dir, MD_PLAN);

	set(plan, "codebook", args[0]);
	md_json_store(damage->dir, MD_PLAN, plan);
	json_object_put(plan);
	printf(" file=%s codebook=%s", MD_PLAN, args[0] ? args[0] : "(deleted)");
}
