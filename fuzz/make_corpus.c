/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the seed corpora: make_corpus DIRECTORY makes DIRECTORY/<target>/<what it is>. Run it
 * after changing a table here or in tests/unit/safetensors_cases.h. Inputs that a failure left
 * behind are named regress-... and are not made here.
 */
#include "fuzz.h"

#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "signature.h"
#include "signed.h"

#include "../tests/support/documents.h"
#include "../tests/unit/safetensors_cases.h"

static const char *corpus_path;

/* "blanks around" becomes blanks-around. */
static void add(const char *target, const char *name, const void *data, size_t size)
{
	char path[512];
	size_t used;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", corpus_path, target);
	FUZZ_CHECK_TEXT(mkdir(path, 0777) == 0 || errno == EEXIST, path);
	used = strlen(path);
	path[used++] = '/';
	for (; *name && used + 1 < sizeof(path); name++) {
		if (isalnum((unsigned char)*name) || *name == '_')
			path[used++] = (char)tolower((unsigned char)*name);
		else if (path[used - 1] != '-')
			path[used++] = '-';
	}
	path[used] = '\0';
	file = fopen(path, "wbx");
	FUZZ_CHECK_TEXT(file || errno == EEXIST, path);
	if (!file)
		file = fopen(path, "wb");
	FUZZ_CHECK_TEXT(file && fwrite(data, 1, size, file) == size && fclose(file) == 0, path);
}

static void add_text(const char *target, const char *name, const char *text)
{
	add(target, name, text, strlen(text));
}

struct named {
	const char *name;
	const char *text;
};

static void add_all(const char *target, const struct named *inputs, size_t count)
{
	for (size_t i = 0; i < count; i++)
		add_text(target, inputs[i].name, inputs[i].text);
}

/* ---- json -------------------------------------------------------------------------------- */

static const struct named json_inputs[] = {
	{ "accept every kind", "{\"a\":[1,-2.5e3,\"x\\u0041\",true,false,null,{}],\"b\":[]}" },
	{ "accept blanks", " \t\r\n[ 1 , 2 ]\n " },
	{ "accept top number", "-0.0" },
	{ "accept top string", "\"\"" },
	{ "accept escapes", "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\"" },
	{ "accept surrogate pair", "\"\\ud83d\\ude00\"" },
	{ "accept utf-8 of every length", "\"a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"" },
	{ "accept utf-8 bounds",
	  "[\"\xc2\x80\",\"\xdf\xbf\",\"\xe0\xa0\x80\",\"\xed\x9f\xbf\",\"\xee\x80\x80\","
	  "\"\xf0\x90\x80\x80\",\"\xf4\x8f\xbf\xbf\"]" },
	{ "accept nul in string", "[\"a\\u0000b\"]" },
	{ "accept nul in key", "{\"a\\u0000b\":1,\"a\":2}" },
	{ "accept numbers at 2^31", "[2147483647,2147483648,-2147483648,-2147483649]" },
	{ "accept numbers at 2^53", "[9007199254740991,9007199254740992,9007199254740993]" },
	{ "accept numbers at 2^63",
	  "[9223372036854775807,9223372036854775808,-9223372036854775808,-9223372036854775809]" },
	{ "accept numbers at 2^64",
	  "[18446744073709551615,18446744073709551616,-18446744073709551616]" },
	{ "accept doubles at the ends", "[1.7976931348623157e308,1e309,5e-324,2e-324,-1e999]" },
	{ "accept halfway doubles",
	  "[1.00000000000000011102230246251565404,9007199254740993.0,0.1,123456789012345678e-5]" },
	{ "accept long fraction",
	  "0.000000000000000000000000000000000000000000000000000000000000000000000000000001e78" },
	{ "accept exponent signs", "[1e+2,1E-2,1e0,0e99999999999999999999]" },
	{ "accept same key elsewhere", "{\"a\":{\"a\":[{\"a\":1},{\"a\":2}]}}" },
	{ "accept nine keys",
	  "{\"1\":1,\"2\":2,\"3\":3,\"4\":4,\"5\":5,\"6\":6,\"7\":7,\"8\":8,\"9\":9}" },
	{ "accept many keys within many keys",
	  "{\"a\":0,\"b\":0,\"c\":0,\"d\":0,\"e\":0,\"f\":0,\"g\":0,\"h\":0,\"i\":{\"a\":0,\"b\":0,"
	  "\"c\":0,\"d\":0,\"e\":0,\"f\":0,\"g\":0,\"h\":0,\"i\":0,\"j\":0},\"j\":0,\"k\":0}" },
	{ "refuse duplicate key", "{\"a\":1,\"b\":2,\"a\":3}" },
	{ "refuse duplicate key escaped", "{\"ab\":1,\"\\u0061b\":2}" },
	{ "refuse duplicate of ten keys",
	  "{\"1\":1,\"2\":2,\"3\":3,\"4\":4,\"5\":5,\"6\":6,\"7\":7,\"8\":8,\"9\":9,\"1\":0}" },
	{ "refuse empty", "" },
	{ "refuse blanks only", " \n" },
	{ "refuse two values", "{}{}" },
	{ "refuse trailing comma in array", "[1,]" },
	{ "refuse trailing comma in object", "{\"a\":1,}" },
	{ "refuse leading comma", "[,1]" },
	{ "refuse missing colon", "{\"a\"1}" },
	{ "refuse missing value", "{\"a\":}" },
	{ "refuse number as key", "{1:2}" },
	{ "refuse wrong end", "[1}" },
	{ "refuse open array", "[[1" },
	{ "refuse open string", "\"abc" },
	{ "refuse open escape", "\"abc\\" },
	{ "refuse short unicode escape", "\"\\u12\"" },
	{ "refuse unknown escape", "\"\\x41\"" },
	{ "refuse lone high surrogate", "\"\\ud800\"" },
	{ "refuse lone low surrogate", "\"\\udc00\"" },
	{ "refuse two high surrogates", "\"\\ud800\\ud800\"" },
	{ "refuse control character", "\"a\x01\"" },
	{ "refuse raw newline", "\"a\nb\"" },
	{ "refuse overlong utf-8", "\"\xc0\xaf\"" },
	{ "refuse overlong utf-8 of three", "\"\xe0\x80\xaf\"" },
	{ "refuse surrogate in utf-8", "\"\xed\xa0\x80\"" },
	{ "refuse utf-8 past the last", "\"\xf4\x90\x80\x80\"" },
	{ "refuse utf-8 cut", "\"\xe2\x82\"" },
	{ "refuse bom", "\xef\xbb\xbf{}" },
	{ "refuse leading zero", "[01]" },
	{ "refuse leading plus", "[+1]" },
	{ "refuse bare minus", "[-]" },
	{ "refuse bare point", "[.5]" },
	{ "refuse point without digits", "[1.]" },
	{ "refuse exponent without digits", "[1e+]" },
	{ "refuse hexadecimal", "[0x10]" },
	{ "refuse nan", "[NaN]" },
	{ "refuse infinity", "[-Infinity]" },
	{ "refuse half a word", "[tru]" },
	{ "refuse word in capitals", "[True]" },
	{ "refuse comment", "[1/*x*/]" },
	{ "refuse single quotes", "['a']" },
	{ "refuse form feed", "[1]\f" },
};

static void add_depth(const char *name, unsigned depth)
{
	struct fuzz_text text = { 0 };

	for (unsigned i = 0; i < depth; i++)
		fuzz_text_printf(&text, "%s", i % 2 ? "{\"k\":" : "[");
	fuzz_text_printf(&text, "1");
	for (unsigned i = depth; i > 0; i--)
		fuzz_text_printf(&text, "%s", (i - 1) % 2 ? "}" : "]");
	add_text("json", name, text.data);
	fuzz_text_deinit(&text);
}

static void add_digits(void)
{
	struct fuzz_text text = { 0 };

	fuzz_text_printf(&text, "[0.");
	for (unsigned i = 0; i < 900; i++)
		fuzz_text_printf(&text, "%u", (i * 7 + 1) % 10);
	fuzz_text_printf(&text, ",");
	for (unsigned i = 0; i < 310; i++)
		fuzz_text_printf(&text, "9");
	fuzz_text_printf(&text, "]");
	add_text("json", "accept more digits than a double can need", text.data);
	fuzz_text_deinit(&text);
}

static void make_json(void)
{
	add_all("json", json_inputs, RSUM_COUNT_OF(json_inputs));
	add_depth("accept 64 deep", 64);
	add_depth("refuse 65 deep", 65);
	add_digits();
}

/* ---- safetensors ------------------------------------------------------------------------- */

static void add_shard(const char *name, const char *header, size_t header_bytes, size_t data_bytes)
{
	uint64_t length = htole64(header_bytes);
	struct fuzz_text file = { 0 };

	fuzz_text_add(&file, &length, sizeof(length));
	fuzz_text_add(&file, header, header_bytes);
	for (size_t i = 0; i < data_bytes; i++)
		fuzz_text_add(&file, "\x55", 1);
	add("safetensors", name, file.data, file.used_bytes);
	fuzz_text_deinit(&file);
}

static void make_safetensors(void)
{
	static const struct named more[] = {
		{ "refuse metadata false", "{\"__metadata__\":false}" },
		{ "refuse metadata a number", "{\"__metadata__\":0}" },
		{ "accept 2^53 - 1", "{\"w\":{\"dtype\":\"U8\",\"shape\":[9007199254740991],"
				     "\"data_offsets\":[0,9007199254740991]}}" },
		{ "refuse past 2^62", "{\"w\":{\"dtype\":\"F4\",\"shape\":[2305843009213693952,4],"
				      "\"data_offsets\":[0,4611686018427387904]}}" },
		{ "accept several empty between",
		  "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
		  "\"e\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[1,1]},"
		  "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]},"
		  "\"f\":{\"dtype\":\"U8\",\"shape\":[0,5],\"data_offsets\":[1,1]}}" },
	};
	char name[256];

	for (size_t i = 0; i < RSUM_COUNT_OF(header_cases); i++) {
		const struct header_case *given = &header_cases[i];

		snprintf(name, sizeof(name), "%s %s", given->code == ACCEPTED ? "accept" : "refuse",
			 given->name);
		/* Two of a name differ only in what the name leaves out. */
		add_shard(name, given->header, given->header_bytes, given->data_bytes);
	}
	for (size_t i = 0; i < RSUM_COUNT_OF(file_cases); i++) {
		const struct file_case *given = &file_cases[i];

		snprintf(name, sizeof(name), "%s file %s",
			 given->code == ACCEPTED ? "accept" : "refuse", given->name);
		add("safetensors", name, given->file, given->file_bytes);
	}
	for (size_t i = 0; i < RSUM_COUNT_OF(more); i++)
		add_shard(more[i].name, more[i].text, strlen(more[i].text), 2);
}

/* ---- manifest ---------------------------------------------------------------------------- */

#define ENTRY(name, dtype, shape, file, range, source)                          \
	"{\"name\":\"" name "\",\"dtype\":\"" dtype "\",\"shape\":" shape       \
	",\"destination_file\":\"" file "\",\"destination_byte_range\":" range  \
	",\"source_byte_range\":" source ",\"source_byte_range_sha256\":"       \
	"\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"," \
	"\"resident_packed_bytes\":8}"
#define GOOD(name) ENTRY(name, "F32", "[2]", "model.safetensors", "[100,108]", "[0,8]")
#define LIST(entries) "{\"tensors\":[" entries "]}"

static const struct named manifest_inputs[] = {
	{ "accept one", LIST(GOOD("a")) },
	{ "accept none", LIST("") },
	{ "accept codebook last", "{\"x\":1,\"tensors\":[" GOOD("a") "],\"codebook\":\"mul1\"}" },
	{ "accept two files", LIST(GOOD("a") "," ENTRY("b", "I16", "[2,3,4]", "sub/b.safetensors",
						       "[8,56]", "[0,48]")) },
	{ "accept scalar and empty",
	  LIST(ENTRY("s", "BF16", "[]", "m", "[8,10]", "[0,2]") "," ENTRY("e", "U8", "[0]", "m",
									  "[10,10]", "[5,5]")) },
	{ "accept further keys",
	  LIST("{\"more\":[{}],"
	       "\"name\":\"a\",\"dtype\":\"F32\",\"shape\":[2],"
	       "\"destination_file\":\"m\",\"destination_byte_range\":[0,8],"
	       "\"source_byte_range\":[0,8],\"source_byte_range_sha256\":"
	       "\"E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855\","
	       "\"resident_packed_bytes\":18446744073709551615}") },
	{ "accept end at 2^62", LIST(ENTRY("a", "U8", "[1]", "m",
					   "[4611686018427387903,4611686018427387904]", "[0,1]")) },
	{ "refuse end past 2^62",
	  LIST(ENTRY("a", "U8", "[1]", "m", "[4611686018427387904,4611686018427387905]",
		     "[0,1]")) },
	{ "refuse name twice", LIST(GOOD("a") "," GOOD("b") "," GOOD("a")) },
	{ "refuse name thrice", LIST(GOOD("a") "," GOOD("a") "," GOOD("a")) },
	{ "refuse name twice escaped", LIST(GOOD("a") "," GOOD("\\u0061")) },
	{ "refuse empty name", LIST(GOOD("")) },
	{ "refuse nul in name", LIST(GOOD("a\\u0000b")) },
	{ "refuse unknown dtype", LIST(ENTRY("a", "float32", "[2]", "m", "[0,8]", "[0,8]")) },
	{ "refuse reversed range", LIST(ENTRY("a", "F32", "[2]", "m", "[8,0]", "[0,8]")) },
	{ "refuse three in a range", LIST(ENTRY("a", "F32", "[2]", "m", "[0,8,9]", "[0,8]")) },
	{ "refuse negative dimension", LIST(ENTRY("a", "F32", "[-2]", "m", "[0,8]", "[0,8]")) },
	{ "refuse fraction in shape", LIST(ENTRY("a", "F32", "[2.0]", "m", "[0,8]", "[0,8]")) },
	{ "refuse range of strings", LIST(ENTRY("a", "F32", "[2]", "m", "[\"0\",{}]", "[0,8]")) },
	{ "refuse shape an object", LIST(ENTRY("a", "F32", "{}", "m", "[0,8]", "[0,8]")) },
	{ "refuse empty file", LIST(ENTRY("a", "F32", "[2]", "", "[0,8]", "[0,8]")) },
	{ "refuse entry a list", LIST("[1]," GOOD("a")) },
	{ "refuse entry empty", LIST("{}") },
	{ "refuse short digest",
	  "{\"tensors\":[{\"name\":\"a\",\"source_byte_range_sha256\":\"e3b0\"}]}" },
	{ "refuse key twice", "{\"tensors\":[],\"tensors\":[]}" },
	{ "refuse member twice", LIST("{\"name\":\"a\",\"name\":\"b\"}") },
	{ "refuse tensors an object", "{\"tensors\":{}}" },
	{ "refuse no tensors", "{\"codebook\":5}" },
	{ "refuse a list", "[]" },
	{ "refuse cut", "{\"tensors\":[" GOOD("a") ",{\"name\":\"b\"" },
	{ "refuse terminal escapes",
	  LIST(GOOD("\\u001b[2J\\u009b\\u202e\\n") "," GOOD("\\u001b[2J\\u009b\\u202e\\n")) },
};

static void make_manifest(void)
{
	struct fuzz_text text = { 0 };

	add_all("manifest", manifest_inputs, RSUM_COUNT_OF(manifest_inputs));
	for (unsigned rank = 64; rank <= 65; rank++) {
		fuzz_text_printf(&text, "{\"tensors\":[{\"shape\":[1");
		for (unsigned i = 1; i < rank; i++)
			fuzz_text_printf(&text, ",1");
		fuzz_text_printf(&text, "]}]}");
		add_text("manifest",
			 rank == 64 ? "refuse members missing at rank 64" : "refuse rank 65",
			 text.data);
		fuzz_text_deinit(&text);
	}
}

/* ---- profile ----------------------------------------------------------------------------- */

static void add_profile(const char *name, char *config, const char *plan, const void *edits,
			size_t edit_bytes)
{
	struct fuzz_text text = { 0 };

	fuzz_text_add(&text, config, strlen(config));
	fuzz_text_printf(&text, "\n===\n%s\n===\n", plan);
	fuzz_text_add(&text, edits, edit_bytes);
	add("profile", name, text.data, text.used_bytes);
	fuzz_text_deinit(&text);
	free(config);
}

/* One replacement in a sound config. */
static const struct {
	const char *name;
	const char *find;
	const char *replace;
} config_changes[] = {
	{ "refuse layers a string", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": \"2\"" },
	{ "refuse no stages", "\"num_nextn_predict_layers\": 1",
	  "\"num_nextn_predict_layers\": 0" },
	{ "refuse 65 stages", "\"num_nextn_predict_layers\": 1",
	  "\"num_nextn_predict_layers\": 65" },
	{ "refuse 65537 experts", "\"dspark_n_routed_experts\": 1",
	  "\"dspark_n_routed_experts\": 65537" },
	{ "refuse negative experts", "\"dspark_n_routed_experts\": 1",
	  "\"dspark_n_routed_experts\": -1" },
	{ "refuse stage not sliding", "\"compress_ratios\": [2, 1, 0]",
	  "\"compress_ratios\": [2, 1, 4]" },
	{ "refuse ratios too short", "\"compress_ratios\": [2, 1, 0]",
	  "\"compress_ratios\": [2, 0]" },
	{ "refuse ratio a fraction", "\"compress_ratios\": [2, 1, 0]",
	  "\"compress_ratios\": [2, 1.5, 0]" },
	{ "accept negative ratio before", "\"compress_ratios\": [2, 1, 0]",
	  "\"compress_ratios\": [-2, 1, -0]" },
	{ "refuse infinite theta", "\"rope_theta\": 10000", "\"rope_theta\": 1e999" },
	{ "accept theta past 2^64", "\"rope_theta\": 10000",
	  "\"rope_theta\": 18446744073709551616" },
	{ "refuse scoring func", "sqrtsoftplus", "softmax" },
	{ "refuse norm topk prob", "\"norm_topk_prob\": true", "\"norm_topk_prob\": 1" },
	{ "refuse quant method", "deepseek_v41_exl3", "exl2" },
	{ "refuse head k a number of floating point", "\"head_k\": 6", "\"head_k\": 6.0" },
	{ "refuse map of strings", "\"wq_a\": 5", "\"wq_a\": \"5\"" },
	{ "accept map of negatives", "\"wq_a\": 5", "\"wq_a\": -9223372036854775808" },
	{ "refuse map past 64 bits", "\"wq_a\": 5", "\"wq_a\": 9223372036854775808" },
	{ "refuse target layer negative", "\"dspark_target_layer_ids\": [0, 1]",
	  "\"dspark_target_layer_ids\": [0, -1]" },
	{ "refuse key twice", "\"hidden_size\": 32,", "\"hidden_size\": 32,\"hidden_size\": 32," },
	{ "refuse text config a list", "\"text_config\": {", "\"text_config\": [], \"y\": {" },
	{ "refuse cut", "\"other\": 1}, \"more\": []}}}", "\"other\": 1}" },
};

/* kind, entry (two bytes), value */
static const struct {
	const char *name;
	const char bytes[20];
	size_t count;
} promise_changes[] = {
	{ "accept promises as they are", "\0", 1 },
	{ "refuse no codebook", "\3", 1 },
	{ "refuse one missing", "\0\0\7\0\0", 5 },
	{ "refuse one twice", "\0\1\7\0\0", 5 },
	{ "accept norm weight too", "\0\2\0\0\0", 5 },
	{ "refuse unexpected", "\0\2\0\0\1", 5 },
	{ "refuse trellis of another dtype", "\0\3\1\0\1", 5 },
	{ "refuse trellis of another shape", "\0\4\1\0\5", 5 },
	{ "refuse trellis of half a tile", "\0\4\1\0\x23", 5 },
	{ "refuse trellis without bits", "\0\4\1\0\2", 5 },
	{ "refuse suh of another length", "\0\4\2\0\x0c", 5 },
	{ "refuse mul1 of no bytes", "\0\6\4\0\0", 5 },
	{ "refuse mul1 without elements", "\0\4\4\0\0", 5 },
	{ "refuse rank", "\0\5\1\0\2", 5 },
	{ "refuse one name for two", "\0\7\1\0\2", 5 },
	{ "refuse trellis past 64 bits", "\0\x84\1\0\0\0\0\0\0\0\0\xf0", 12 },
};

static void make_profile(void)
{
	char *plan = document_plan();

	for (size_t i = 0; i < RSUM_COUNT_OF(config_changes); i++)
		add_profile(config_changes[i].name,
			    document_edit(document_config(1, 1), NULL, config_changes[i].find,
					  config_changes[i].replace),
			    plan, "", 0);
	for (size_t i = 0; i < RSUM_COUNT_OF(promise_changes); i++)
		add_profile(promise_changes[i].name, document_config(1, 1), plan,
			    promise_changes[i].bytes, promise_changes[i].count);
	add_profile("accept two stages of two experts", document_config(2, 2), plan, "\0", 1);
	add_profile("refuse plan without codebook", document_config(1, 1), "{\"layers\":[]}", "",
		    0);
	add_profile("refuse plan of another codebook", document_config(1, 1),
		    "{\"codebook\":\"3inst\"}", "", 0);
	add_profile("refuse plan that is no json", document_config(1, 1), "codebook", "", 0);
	add_text("profile", "refuse no documents", "\n===\n\n===\n");
	free(plan);
}

/* ---- plan -------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	const char bytes[64];
	size_t count;
} plan_inputs[] = {
	{ "accept no range", "\3\1\0\1", 4 },
	{ "accept one byte",
	  "\3\0\0\0"
	  "\0\1",
	  6 },
	{ "accept neighbours",
	  "\3\1\0\2"
	  "\0\x10\0\x20\0\x30\4\0\1",
	  13 },
	{ "accept gaps",
	  "\3\1\0\2"
	  "\1\0\1\0\x10\1\0\0\2\x10\1\xff\xff\0\1",
	  19 },
	{ "accept gap past the limit of joining",
	  "\3\1\0\2"
	  "\0\x10\1\1\0\1\x10",
	  11 },
	{ "accept overlaps",
	  "\3\1\0\2"
	  "\4\0\1\2\x80\0\x40",
	  11 },
	{ "accept four shards",
	  "\3\1\0\2"
	  "\0\x10\x40\x10\x80\x10\xc0\x10",
	  12 },
	{ "accept large ranges",
	  "\3\xff\0\4"
	  "\x0c\1\0\x0c\xff\xff\x0c\0\1",
	  13 },
	{ "accept unaligned begin",
	  "\3\1\0\2"
	  "\7\x88\x13\0\0\0\0\0\0\x40\x1f",
	  15 },
	{ "accept short file",
	  "\x83\1\0\2"
	  "\xbc\x34\0\0\0\0\0\0"
	  "\7\x88\x13\0\0\0\0\0\0\x40\x1f",
	  23 },
	{ "refuse empty range",
	  "\3\1\0\2"
	  "\0\0",
	  6 },
	{ "refuse past 2^62",
	  "\3\1\0\2"
	  "\7\xff\xff\xff\xff\xff\xff\xff\x3f\2\0",
	  15 },
	{ "accept ending at 2^62",
	  "\3\1\0\2"
	  "\3\xff\xff\xff\xff\xff\xff\xff\x3f\1",
	  14 },
	{ "refuse reversed",
	  "\3\1\0\2"
	  "\x2f\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
	  21 },
};

/* Five ranges of 2^62 bytes: each is good, their sum is not. */
static void add_sum_past_64_bits(void)
{
	struct fuzz_text text = { 0 };

	fuzz_text_add(&text, "\3\1\0\2", 4);
	for (unsigned i = 0; i < 5; i++)
		fuzz_text_add(&text, "\x2f\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x40", 17);
	add("plan", "refuse sum past 64 bits", text.data, text.used_bytes);
	fuzz_text_deinit(&text);
}

static void add_crowd(void)
{
	struct fuzz_text text = { 0 };

	fuzz_text_add(&text, "\0\0\0\7", 4);
	for (unsigned i = 0; i < 300; i++) {
		char range[2] = { (char)(i % 3 == 0 ? 0x40 * (i % 4) : 0), (char)(1 + i % 255) };

		fuzz_text_add(&text, range, 2);
	}
	add("plan", "accept a crowd of small ranges", text.data, text.used_bytes);
	fuzz_text_deinit(&text);
}

static void make_plan(void)
{
	for (size_t i = 0; i < RSUM_COUNT_OF(plan_inputs); i++)
		add("plan", plan_inputs[i].name, plan_inputs[i].bytes, plan_inputs[i].count);
	add_sum_past_64_bits();
	add_crowd();
}

/* ---- path -------------------------------------------------------------------------------- */

static const struct named path_inputs[] = {
	{ "plain", "a/b/f" },
	{ "dots and slashes", "./a//b/./f" },
	{ "trailing slash", "a/b/" },
	{ "trailing dot", "f/." },
	{ "climbs", "a/../f" },
	{ "climbs out", "../outside" },
	{ "three dots", "a/.../f" },
	{ "absolute", "/etc/passwd" },
	{ "empty", "\nf" },
	{ "only dots", "././" },
	{ "a file as a directory", "f/x" },
	{ "link to a file", "to_f" },
	{ "link to a directory", "to_b/c/f" },
	{ "link up", "up/outside" },
	{ "link up and back", "a/up/root/f" },
	{ "link out", "out" },
	{ "link to the root of all", "absolute/etc" },
	{ "link in a circle", "loop" },
	{ "link to nothing", "gone" },
	{ "made link climbs", "l1\na/../../root/f" },
	{ "made link with a slash", "l1/\na/b/" },
	{ "made links to each other", "l1\na/l2\n../l1" },
	{ "made links one after the other", "l1/f\na/l2\n./b/./c" },
	{ "made link empty", "l1\n\n" },
	{ "made link absolute", "a/l2/f\n\n/dev/shm" },
	{ "magic link", "l1\n/proc/self/root" },
};

static void make_path(void)
{
	struct fuzz_text text = { 0 };

	add_all("path", path_inputs, RSUM_COUNT_OF(path_inputs));
	for (unsigned length = 255; length <= 256; length++) {
		for (unsigned i = 0; i < length; i++)
			fuzz_text_printf(&text, "x");
		add_text("path", length == 255 ? "part of 255 bytes" : "part of 256 bytes",
			 text.data);
		fuzz_text_deinit(&text);
	}
	for (unsigned i = 0; i < 2048; i++)
		fuzz_text_printf(&text, "./");
	text.data[text.used_bytes - 1] = 'f';
	add_text("path", "4096 bytes", text.data);
	fuzz_text_printf(&text, "/");
	add_text("path", "4097 bytes", text.data);
	fuzz_text_deinit(&text);
	for (unsigned i = 0; i < 40; i++)
		fuzz_text_printf(&text, "a/b/back/");
	fuzz_text_printf(&text, "f");
	add_text("path", "as many links as are followed", text.data);
	fuzz_text_deinit(&text);
	for (unsigned i = 0; i < 15; i++)
		fuzz_text_printf(&text, "to_b/back/../");
	fuzz_text_printf(&text, "../outside");
	add_text("path", "thirty links and then a climb", text.data);
	fuzz_text_deinit(&text);
	for (unsigned i = 0; i < 41; i++)
		fuzz_text_printf(&text, "to_b/back/../");
	fuzz_text_printf(&text, "f");
	add_text("path", "more links than are followed", text.data);
	fuzz_text_deinit(&text);
}

/* ---- small ------------------------------------------------------------------------------- */

#define DIGEST "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static const struct {
	const char *name;
	char check;
	const char *text;
} small_inputs[] = {
	{ "hex digest", 0, DIGEST },
	{ "hex digest in capitals", 0,
	  "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855" },
	{ "hex 63 digits", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b85" },
	{ "hex 65 digits", 0, DIGEST "0" },
	{ "hex with g", 0, "g3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
	{ "hex empty", 0, "" },
	{ "digest of nothing", 1, "" },
	{ "digest around a block", 1,
	  "12345678abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijkl" },
	{ "digest of three messages", 1,
	  "\1\x90\x50zzzzzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstu"
	  "vw"
	  "xyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdef"
	  "g" },
	{ "name of a dtype", 2, "F8_E4M3FNUZ" },
	{ "name of no dtype", 2, "F8" },
	{ "name of a digest implementation", 2, "sha-ni-x3" },
	{ "name auto", 2, "auto" },
	{ "shape of three", 3, "\x0d\xff\1\2\3\4\5\6" },
	{ "shape past 64 bits", 3, "\x04\xff\xa0\xa0\x81" },
	{ "shape shortened", 3, "\x11\6\1\x40\x40\1\x41\x41\1\x42\x42" },
	{ "shape of half a byte", 3, "\1\xff\xff" },
	{ "text plain", 4, "\x40model.safetensors" },
	{ "text of escapes", 4,
	  "\x40"
	  "a\n\t\\\x1b[2J\x7f" },
	{ "text of c1 and bidi", 4, "\x40\xc2\x85\xe2\x80\xae\xe2\x81\xa6x" },
	{ "text not utf-8", 4, "\x40\xff\xc3(\xed\xa0\x80\xf4\x90\x80\x80" },
	{ "text cut in a character", 4, "\2abcd\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac" },
	{ "names some twice", 5, "a\nb\na\n\nb\nc\n" },
	{ "names many", 5,
	  "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\na\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm\nn\n" },
	{ "options usual", 6, "\x40\x40\x40\x40\x40\x40\x40\x40" },
	{ "options pinned", 6, DIGEST },
	{ "options of chunk", 6, "\1\1\1\1\1\1\x80\xff\xff\xff\xff\xff\xff\xff\xff" },
};

static void make_small(void)
{
	struct fuzz_text text = { 0 };

	for (size_t i = 0; i < RSUM_COUNT_OF(small_inputs); i++) {
		fuzz_text_add(&text, &small_inputs[i].check, 1);
		fuzz_text_add(&text, small_inputs[i].text, strlen(small_inputs[i].text));
		add("small", small_inputs[i].name, text.data, text.used_bytes);
		fuzz_text_deinit(&text);
	}
}

/* ---- signing ----------------------------------------------------------------------------- */

#define STATEMENT_HEAD                                                                  \
	"s{\"_type\":\"https://in-toto.io/Statement/v1\",\"subject\":[{\"name\":\"m\"," \
	"\"digest\":{\"sha256\":"
#define STATEMENT_MIDDLE                                                                 \
	"}}],\"predicateType\":\"https://model_signing/signature/v1.0\",\"predicate\":{" \
	"\"serialization\":{\"allow_symlinks\":false,\"hash_type\":\"sha256\","
#define EMPTY_DIGEST "\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\""
#define RESOURCE(name, algorithm) \
	"{\"name\":\"" name "\",\"algorithm\":\"" algorithm "\",\"digest\":" EMPTY_DIGEST "}"

static const struct named signing_inputs[] = {
	{ "base64", "6Zm9vYg==" },
	{ "base64 refused bits", "6Zm9vYh==" },
	{ "base64 refused blank", "6Zm9v Yg==" },
	{ "statement", "s" FUZZ_SIGNED_STATEMENT },
	{ "statement pieces", STATEMENT_HEAD
	  "\"2dba5dbc339e7316aea2683faf839c1b7b1ee2313db792112588118df066aa35\"" STATEMENT_MIDDLE
	  "\"method\":\"shards\",\"shard_size\":1000.0,\"ignore_paths\":[\".git\","
	  "\"a//b\"]},\"resources\":[" RESOURCE("a:0:1000", "sha256-sharded-1000") "," RESOURCE(
		  "a:1000:1001", "sha256") "]}}" },
	{ "statement refused subject", STATEMENT_HEAD EMPTY_DIGEST STATEMENT_MIDDLE
	  "\"method\":\"files\"},\"resources\":[" RESOURCE("a", "sha256") "]}}" },
	{ "statement refused path", STATEMENT_HEAD
	  "\"5df6e0e2761359d30a8275058e299fcc0381534545f55cf43e41983f5d4c9456\"" STATEMENT_MIDDLE
	  "\"method\":\"files\"},\"resources\":[" RESOURCE("../a", "sha256") "]}}" },
	{ "statement legacy",
	  "s{\"_type\":\"https://in-toto.io/Statement/v1\",\"subject\":[{\"name\":\"a\","
	  "\"digest\":{\"sha256\":" EMPTY_DIGEST "},\"annotations\":{\"actual_hash_algorithm\":"
	  "\"file-sha256\"}}],\"predicateType\":\"https://model_signing/Digests/v0.1\","
	  "\"predicate\":{\"unused\":\"\"}}" },
	{ "key public", "k" FUZZ_SIGNED_PUBLIC_KEY },
	{ "key private", "k" FUZZ_SIGNED_PRIVATE_KEY },
	{ "key authority", "k" FUZZ_SIGNED_AUTHORITY },
	{ "bundle keyless",
	  "b{\"mediaType\":\"application/"
	  "vnd.dev.sigstore.bundle.v0.3+json\",\"verificationMaterial\":"
	  "{\"certificate\":{\"rawBytes\":\"AQ==\"},\"tlogEntries\":[{\"logIndex\":\"1\"}]},"
	  "\"dsseEnvelope\":{\"payload\":\"e30=\",\"payloadType\":\"application/vnd.in-toto+json\","
	  "\"signatures\":[{\"sig\":\"AQ==\",\"keyid\":\"\"}]}}" },
};

static void add_bundle(const char *name, const struct rsum_bytes *payload,
		       const struct rsum_bytes *signature, const char *hint,
		       const struct rsum_chain *chain)
{
	struct fuzz_text text = { 0 };
	char *bundle = NULL;

	FUZZ_CHECK(rsum_bundle_write(payload, signature, hint, chain->certificates, chain->count,
				     &bundle) == 0);
	fuzz_text_add(&text, "b", 1);
	fuzz_text_add(&text, bundle, strlen(bundle));
	add("signing", name, text.data, text.used_bytes);
	fuzz_text_deinit(&text);
	free(bundle);
}

static void make_signing(void)
{
	static const char pem[] = FUZZ_SIGNED_PRIVATE_KEY;
	static const char statement[] = FUZZ_SIGNED_STATEMENT;
	const struct rsum_bytes payload = { (const uint8_t *)statement, strlen(statement) };
	uint8_t bytes[RSUM_LIMIT_SIGNATURE_BYTES];
	struct rsum_bytes signature = { .data = bytes };
	char hint[RSUM_SIGNATURE_HINT_BYTES], reason[RSUM_SIGNATURE_REASON_BYTES];
	struct rsum_chain chain = { 0 };
	struct rsum_private_key *key = NULL;
	struct rsum_signer signer;

	for (size_t i = 0; i < RSUM_COUNT_OF(signing_inputs); i++)
		add("signing", signing_inputs[i].name, signing_inputs[i].text,
		    strlen(signing_inputs[i].text));
	FUZZ_CHECK(rsum_private_key_read(pem, strlen(pem), NULL, &key, reason) == 0);
	FUZZ_CHECK(rsum_signature_make(key, &payload, bytes, &signature.size_bytes, hint, &signer,
				       reason) == 0);
	rsum_private_key_free(key);
	add_bundle("bundle key", &payload, &signature, hint, &chain);
	chain.certificates[chain.count++] = payload; /* no certificate at all */
	add_bundle("bundle refused chain", &payload, &signature, hint, &chain);
	bytes[5] ^= 1;
	chain.count = 0;
	add_bundle("bundle refused signature", &payload, &signature, hint, &chain);
}

/* ---- checkpoint -------------------------------------------------------------------------- */

#define HEADER                                                             \
	"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}," \
	"\"b\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[8,9]},"    \
	"\"e\":{\"dtype\":\"I16\",\"shape\":[0,3],\"data_offsets\":[9,9]}}"
#define OTHER "{\"c\":{\"dtype\":\"BF16\",\"shape\":[3,100000],\"data_offsets\":[0,600000]}}"
#define SHARD "%%shard model.safetensors\n" HEADER "\n"
#define SOUND "%%options n\n" SHARD "%%promise\n"

static const struct named checkpoint_inputs[] = {
	{ "identical", SOUND },
	{ "identical both engines", "%%options nu\n" SHARD "%%promise\n" },
	{ "identical pinned", "%%options np\n" SHARD "%%promise\n" },
	{ "identical by manifest path", "%%options nf\n" SHARD "%%promise\n" },
	{ "identical strict", "%%options ns\n" SHARD "%%promise\n" },
	{ "identical two shards",
	  "%%options nut\n" SHARD "%%shard sub/other.safetensors\n" OTHER "\n%%promise\n" },
	{ "identical scalars only",
	  "%%options nu\n%%shard model.safetensors\n"
	  "{\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}\n%%promise\n" },
	{ "identical one large", "%%options nut\n%%shard m.safetensors\n" OTHER "\n%%promise\n" },
	{ "identical through a link inside",
	  SOUND "model.safetensors=>l\nmodel.safetensors=>l\nmodel.safetensors=>l\n"
		"%%link l\nmodel.safetensors\n" },
	{ "undecided no manifest", "%%options n\n" SHARD },
	{ "undecided empty directory", "" },
	{ "undecided no tensor", "%%file TENSORS.json\n{\"tensors\":[]}" },
	{ "refused wrong pin", "%%options nw\n" SHARD "%%promise\n" },
	{ "refused one bit", "%%options nu\n" SHARD "%%promise\n%%flip model.safetensors\n1350\n" },
	{ "refused one bit of many", "%%options nut\n%%shard m.safetensors\n" OTHER
				     "\n%%promise\n%%flip m.safetensors\n2400000\n" },
	{ "refused bit in header", SOUND "%%flip model.safetensors\n100\n" },
	{ "refused truncated",
	  "%%options nu\n" SHARD "%%promise\n%%size model.safetensors\n172\n" },
	{ "refused truncated in header", SOUND "%%size model.safetensors\n30\n" },
	{ "refused trailing", SOUND "%%size model.safetensors\n300\n" },
	{ "refused empty file", SOUND "%%size model.safetensors\n0\n" },
	{ "refused dtype", SOUND "F32=>I32\n" },
	{ "refused shape", SOUND "[2]=>[1,2]\n" },
	{ "refused name", SOUND "\"a\"=>\"z\"\n" },
	{ "refused name twice", SOUND "\"a\"=>\"b\"\n" },
	{ "refused digest of empty", SOUND "e3b0c442=>e3b0c443\n" },
	{ "refused digest of empty at its end", SOUND "7852b855=>7852b856\n" },
	{ "refused range elsewhere", SOUND "range\":[177,177]=>range\":[176,176]\n" },
	{ "refused escape", SOUND "model.safetensors=>../x\n" },
	{ "refused absolute", SOUND "model.safetensors=>/etc/passwd\n" },
	{ "refused missing file", SOUND "model.safetensors=>gone\n" },
	{ "refused directory", SOUND "model.safetensors=>d\n%%dir d\n" },
	{ "refused fifo", SOUND "model.safetensors=>q\n%%fifo q\n" },
	{ "refused link out", SOUND "model.safetensors=>l\n%%link l\n../../etc/passwd\n" },
	{ "refused link in a circle", SOUND "model.safetensors=>l\n%%link l\nl\n" },
	{ "refused strict unpromised file", "%%options ns\n" SHARD "%%promise\n%%file extra\nx\n" },
	{ "refused strict unpromised tensor",
	  "%%options ns\n" SHARD "%%promise\n%%shard more.safetensors\n" OTHER "\n" },
	{ "refused manifest cut", SOUND "]}=>\n" },
	{ "refused lfs pointer",
	  SOUND "%%file model.safetensors\nversion https://git-lfs.github.com/spec/v1\n" },
	{ "refused manifest a directory", "%%options n\n%%dir TENSORS.json\n" },
	{ "refused profile asked for", "%%options d\n" SHARD "%%promise\n" },
	{ "refused codebook without config", "%%options \n" SHARD "%%promise mul1\n" },
	{ "direct required", "%%options nr\n" SHARD "%%promise\n" },
	{ "identical buffered", "%%options nou\n" SHARD "%%promise\n" },
	{ "refused names for a terminal",
	  "%%options n\n%%shard \x1b[31m.safetensors\n"
	  "{\"\\u001b[2J\\u202e\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}\n"
	  "%%promise\nU8=>I8\n" },
};

/* With a bit of the marker of `head` inverted before the promise is made where that is asked. */
static void add_drafter(const char *name, bool is_marker_wrong, const char *end)
{
	struct fuzz_text text = { 0 };
	char *config = document_config(1, 1), *plan = document_plan();
	unsigned long long offset = 0, marker = 0;
	size_t count, header_begin;
	struct document_tensor *tensors = document_tensors(1, 1, &count);

	fuzz_text_printf(&text, "%%%%options u\n%%%%file config.json\n");
	fuzz_text_add(&text, config, strlen(config));
	fuzz_text_printf(&text, "%%%%file exl3_moe_plan.json\n%s", plan);
	fuzz_text_printf(&text, "%%%%shard model.safetensors\n");
	header_begin = text.used_bytes;
	fuzz_text_printf(&text, "{");
	for (size_t i = 0; i < count; i++) {
		if (strcmp(tensors[i].name, "head.mul1") == 0)
			marker = offset;
		fuzz_text_printf(
			&text,
			"%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%llu,%llu]}",
			i ? "," : "", tensors[i].name, tensors[i].dtype, tensors[i].shape, offset,
			offset + tensors[i].size_bytes);
		offset += tensors[i].size_bytes;
	}
	fuzz_text_printf(&text, "}");
	marker += 8 + text.used_bytes - header_begin;
	if (is_marker_wrong)
		fuzz_text_printf(&text, "\n%%%%flip model.safetensors\n%llu", 8 * marker);
	fuzz_text_printf(&text, "\n%%%%promise mul1\n%s", end);
	add("checkpoint", name, text.data, text.used_bytes);
	fuzz_text_deinit(&text);
	document_tensors_free(tensors, count);
	free(config);
	free(plan);
}

static void make_checkpoint(void)
{
	add_all("checkpoint", checkpoint_inputs, RSUM_COUNT_OF(checkpoint_inputs));
	add_drafter("identical drafter", false, "");
	add_drafter("refused drafter without its last tensor", false,
		    "confidence_head=>confidence\n");
	add_drafter("refused drafter of another marker", true, "");
	add_drafter("refused drafter of a shape that is no linear", false, "[2,3,48]=>[3,2,48]\n");
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "Usage: %s DIRECTORY\n", argv[0]);
		return 2;
	}
	corpus_path = argv[1];
	make_json();
	make_safetensors();
	make_manifest();
	make_profile();
	make_plan();
	make_path();
	make_small();
	make_signing();
	make_checkpoint();
	return 0;
}
