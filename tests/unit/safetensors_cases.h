/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small files and what is to be made of each. Where the reference implementation of the format
 * decides otherwise, a note says so: ringsum is stricter where two parsers could disagree.
 */
#ifndef SAFETENSORS_CASES_H
#define SAFETENSORS_CASES_H

#include <stddef.h>
#include <stdint.h>

#include "ringsum.h"

#define ACCEPTED RINGSUM_FINDING_CODE_COUNT
#define INVALID RINGSUM_FINDING_HEADER_INVALID
#define TRUNCATED RINGSUM_FINDING_FILE_TRUNCATED
#define TRAILING RINGSUM_FINDING_FILE_TRAILING

/* A file of N, the header's text, and `data_bytes` of data. */
struct header_case {
	const char *name;
	const char *header;
	size_t header_bytes;
	size_t data_bytes;
	enum ringsum_finding_code code;
	const char *message; /* part of it; NULL where accepted */
};

/* A file byte by byte. */
struct file_case {
	const char *name;
	const char *file;
	size_t file_bytes;
	enum ringsum_finding_code code;
	const char *message;
};

#define BYTES(literal) literal, sizeof(literal) - 1
#define ONE(members) BYTES("{\"w\":{" members "}}")
#define TYPED(dtype, shape, offsets) \
	ONE("\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets)
#define F32_4 "{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}"
#define NAMED(name) BYTES("{\"" name "\":" F32_4 "}")
#define PAIR(a_shape, a_offsets, b_shape, b_offsets)                                       \
	BYTES("{\"a\":{\"dtype\":\"U8\",\"shape\":" a_shape ",\"data_offsets\":" a_offsets \
	      "},\"b\":{\"dtype\":\"U8\",\"shape\":" b_shape ",\"data_offsets\":" b_offsets "}}")
#define DEEP_10 "[[[[[[[[[["
#define SHUT_10 "]]]]]]]]]]"
#define DEEP_120                                                                                \
	DEEP_10 DEEP_10 DEEP_10 DEEP_10 DEEP_10 DEEP_10 DEEP_10 DEEP_10 DEEP_10 DEEP_10 DEEP_10 \
		DEEP_10
#define SHUT_120                                                                                \
	SHUT_10 SHUT_10 SHUT_10 SHUT_10 SHUT_10 SHUT_10 SHUT_10 SHUT_10 SHUT_10 SHUT_10 SHUT_10 \
		SHUT_10

static const struct header_case header_cases[] = {
	/* ---- the document ---- */
	{ "one tensor", NAMED("w"), 16, ACCEPTED, NULL },
	{ "no tensor", BYTES("{}"), 0, ACCEPTED, NULL },
	{ "blanks around", BYTES(" \t\r\n{} \n"), 0, ACCEPTED, NULL },
	{ "an array", BYTES("[]"), 0, INVALID, "an array where an object is expected" },
	{ "null", BYTES("null"), 0, INVALID, "null where an object" },
	{ "a string", BYTES("\"w\""), 0, INVALID, "a string where an object" },
	{ "a number", BYTES("17"), 0, INVALID, "a number where an object" },
	{ "only blanks", BYTES("    "), 0, INVALID, "the text ends" },
	{ "two documents", BYTES("{}{}"), 0, INVALID, "'{' where the end of the text" },
	{ "NUL padding", BYTES("{}\0\0\0"), 0, INVALID, "3 NUL bytes after the header's JSON" },
	{ "one NUL byte of padding", BYTES("{}\0"), 0, INVALID, "1 NUL byte after" },
	{ "NUL, then more", BYTES("{}\0 "), 0, INVALID, "byte 0x00 where the end" },
	{ "zeros in place of JSON", BYTES("\0\0\0\0\0\0"), 0, INVALID, "zeros where the header's" },
	{ "BOM", BYTES("\xef\xbb\xbf{}"), 0, INVALID, "byte order mark" },
	{ "UTF-16 with BOM", BYTES("\xff\xfe{\0}\0"), 0, INVALID, "UTF-16" },
	{ "UTF-16 without BOM", BYTES("{\0}\0"), 0, INVALID, "UTF-16" },
	{ "UTF-16, big end first", BYTES("\0{\0}"), 0, INVALID, "UTF-16" },
	{ "form feed", BYTES("{}\f"), 0, INVALID, "byte 0x0c" },
	{ "trailing comma", BYTES("{\"w\":" F32_4 ",}"), 16, INVALID, "a key in double quotes" },
	{ "single quotes", BYTES("{'w':{}}"), 0, INVALID, "a key in double quotes" },
	{ "not UTF-8 at all", BYTES("\xfe"), 0, INVALID, "byte 0xfe" },
	{ "half a character in a name", NAMED("w\xc3"), 16, INVALID,
	  "byte 0xc3 is not valid UTF-8" },
	{ "127 deep",
	  ONE("\"x\":" DEEP_120 "[[[[[]]]]]" SHUT_120
	      ",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]"),
	  1, ACCEPTED, NULL },
	{ "128 deep",
	  ONE("\"x\":" DEEP_120 "[[[[[[]]]]]]" SHUT_120
	      ",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]"),
	  1, INVALID, "deeper than 127" },

	/* ---- keys given twice; the reference takes the last of two tensors or pairs ---- */
	{ "a tensor twice, alike", BYTES("{\"w\":" F32_4 ",\"w\":" F32_4 "}"), 16, INVALID,
	  "duplicate key \"w\"" },
	{ "a tensor twice, unlike",
	  BYTES("{\"w\":" F32_4
		",\"w\":{\"dtype\":\"I32\",\"shape\":[4],\"data_offsets\":[0,16]}}"),
	  16, INVALID, "duplicate key \"w\"" },
	{ "a tensor twice, escaped", BYTES("{\"w\":" F32_4 ",\"\\u0077\":" F32_4 "}"), 16, INVALID,
	  "duplicate key \"w\"" },
	{ "dtype twice",
	  ONE("\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]"), 1, INVALID,
	  "duplicate key \"dtype\"" },
	{ "shape twice", ONE("\"dtype\":\"U8\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,1]"),
	  1, INVALID, "duplicate key \"shape\"" },
	{ "data_offsets twice, escaped",
	  ONE("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"data\\u005foffsets\":[0,1]"),
	  1, INVALID, "duplicate key \"data_offsets\"" },
	{ "a pair twice", BYTES("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}"), 0, INVALID,
	  "duplicate key \"k\"" },
	{ "__metadata__ twice", BYTES("{\"__metadata__\":{},\"__metadata__\":null}"), 0, INVALID,
	  "duplicate key \"__metadata__\"" },
	{ "twice in what is skipped",
	  ONE("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":[{\"y\":0,\"y\":0}]"), 1,
	  INVALID, "duplicate key \"y\"" },

	/* ---- __metadata__ ---- */
	{ "metadata null", BYTES("{\"__metadata__\":null}"), 0, ACCEPTED, NULL },
	{ "metadata empty", BYTES("{\"__metadata__\":{}}"), 0, ACCEPTED, NULL },
	{ "metadata last", BYTES("{\"w\":" F32_4 ",\"__metadata__\":{\"k\":\"v\"}}"), 16, ACCEPTED,
	  NULL },
	{ "metadata key escaped", BYTES("{\"__metad\\u0061ta__\":{\"k\":\"v\"}}"), 0, ACCEPTED,
	  NULL },
	{ "metadata of a number", BYTES("{\"__metadata__\":{\"k\":1}}"), 0, INVALID,
	  "\"k\" holds a number where a string" },
	{ "metadata of null", BYTES("{\"__metadata__\":{\"k\":null}}"), 0, INVALID,
	  "\"k\" holds null where a string" },
	{ "metadata of false", BYTES("{\"__metadata__\":{\"k\":false}}"), 0, INVALID,
	  "\"k\" holds false where a string" },
	{ "metadata an array", BYTES("{\"__metadata__\":[]}"), 0, INVALID,
	  "__metadata__ is an array" },
	{ "metadata a string", BYTES("{\"__metadata__\":\"\"}"), 0, INVALID,
	  "__metadata__ is a string" },
	{ "metadata a tensor", BYTES("{\"__metadata__\":" F32_4 "}"), 16, INVALID,
	  "\"shape\" holds an array where a string" },
	/* The reference keeps NUL here; as C strings they would be cut. */
	{ "metadata key with NUL", BYTES("{\"__metadata__\":{\"k\\u0000\":\"v\"}}"), 0, INVALID,
	  "NUL character in a key" },
	{ "metadata value with NUL", BYTES("{\"__metadata__\":{\"k\":\"v\\u0000\"}}"), 0, INVALID,
	  "NUL character in a string" },

	/* ---- members of a tensor ---- */
	{ "no dtype", ONE("\"shape\":[1],\"data_offsets\":[0,1]"), 1, INVALID,
	  "tensor \"w\" has no dtype" },
	{ "no shape", ONE("\"dtype\":\"U8\",\"data_offsets\":[0,1]"), 1, INVALID,
	  "tensor \"w\" has no shape" },
	{ "no data_offsets", ONE("\"dtype\":\"U8\",\"shape\":[1]"), 1, INVALID,
	  "tensor \"w\" has no data_offsets" },
	{ "no member", BYTES("{\"w\":" F32_4 ",\"x\":{}}"), 16, INVALID,
	  "tensor \"x\" has no dtype" },
	{ "another order", ONE("\"data_offsets\":[0,2],\"shape\":[1],\"dtype\":\"BF16\""), 2,
	  ACCEPTED, NULL },
	{ "another member",
	  ONE("\"x\":{\"y\":[1.5,null]},\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]"), 1,
	  ACCEPTED, NULL },
	{ "another member that is no JSON",
	  ONE("\"x\":[01],\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]"), 1, INVALID,
	  "leading zero" },
	{ "a member with NUL in its name",
	  ONE("\"dtype\\u0000\":1,\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]"), 1,
	  INVALID, "NUL character in a key" },
	{ "tensor null", BYTES("{\"w\":null}"), 0, INVALID, "tensor \"w\": null where an object" },
	{ "tensor a string", BYTES("{\"w\":\"F32\"}"), 0, INVALID, "a string where an object" },
	{ "tensor an array", BYTES("{\"w\":[\"F32\",[1],[0,4]]}"), 4, INVALID,
	  "an array where an object" },

	/* ---- dtype ---- */
	{ "dtype in small letters", TYPED("f32", "[1]", "[0,4]"), 4, INVALID,
	  "unknown dtype \"f32\"" },
	{ "dtype of another family", TYPED("float32", "[1]", "[0,4]"), 4, INVALID,
	  "unknown dtype \"float32\"" },
	{ "dtype with NUL", TYPED("F32\\u0000", "[1]", "[0,4]"), 4, INVALID, "NUL character" },
	{ "dtype a number", ONE("\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,1]"), 1, INVALID,
	  "a number where a string is expected in dtype" },
	/* The reference takes a map with the dtype as its key. */
	{ "dtype a map", ONE("\"dtype\":{\"U8\":null},\"shape\":[1],\"data_offsets\":[0,1]"), 1,
	  INVALID, "an object where a string is expected in dtype" },
	{ "dtype escaped", TYPED("\\u0055\\u0038", "[1]", "[0,1]"), 1, ACCEPTED, NULL },
	{ "BOOL", TYPED("BOOL", "[5]", "[0,5]"), 5, ACCEPTED, NULL },
	{ "U8", TYPED("U8", "[5]", "[0,5]"), 5, ACCEPTED, NULL },
	{ "I8", TYPED("I8", "[5]", "[0,5]"), 5, ACCEPTED, NULL },
	{ "F8_E5M2", TYPED("F8_E5M2", "[5]", "[0,5]"), 5, ACCEPTED, NULL },
	{ "F8_E4M3", TYPED("F8_E4M3", "[5]", "[0,5]"), 5, ACCEPTED, NULL },
	{ "F8_E8M0", TYPED("F8_E8M0", "[5]", "[0,5]"), 5, ACCEPTED, NULL },
	{ "F8_E4M3FNUZ", TYPED("F8_E4M3FNUZ", "[5]", "[0,5]"), 5, ACCEPTED, NULL },
	{ "F8_E5M2FNUZ", TYPED("F8_E5M2FNUZ", "[5]", "[0,5]"), 5, ACCEPTED, NULL },
	{ "I16", TYPED("I16", "[5]", "[0,10]"), 10, ACCEPTED, NULL },
	{ "U16", TYPED("U16", "[5]", "[0,10]"), 10, ACCEPTED, NULL },
	{ "F16", TYPED("F16", "[5]", "[0,10]"), 10, ACCEPTED, NULL },
	{ "BF16", TYPED("BF16", "[5]", "[0,10]"), 10, ACCEPTED, NULL },
	{ "I32", TYPED("I32", "[5]", "[0,20]"), 20, ACCEPTED, NULL },
	{ "U32", TYPED("U32", "[5]", "[0,20]"), 20, ACCEPTED, NULL },
	{ "F32", TYPED("F32", "[5]", "[0,20]"), 20, ACCEPTED, NULL },
	{ "C64", TYPED("C64", "[5]", "[0,40]"), 40, ACCEPTED, NULL },
	{ "F64", TYPED("F64", "[5]", "[0,40]"), 40, ACCEPTED, NULL },
	{ "I64", TYPED("I64", "[5]", "[0,40]"), 40, ACCEPTED, NULL },
	{ "U64", TYPED("U64", "[5]", "[0,40]"), 40, ACCEPTED, NULL },
	{ "F4 of whole bytes", TYPED("F4", "[6]", "[0,3]"), 3, ACCEPTED, NULL },
	{ "F4 of half a byte more", TYPED("F4", "[5]", "[0,3]"), 3, INVALID,
	  "shape [5] of F4 does not come to whole bytes" },
	{ "F4 scalar", TYPED("F4", "[]", "[0,1]"), 1, INVALID,
	  "shape [] of F4 does not come to whole bytes" },
	{ "F4 empty", TYPED("F4", "[0]", "[0,0]"), 0, ACCEPTED, NULL },
	{ "F6 of whole bytes", TYPED("F6_E2M3", "[2,2]", "[0,3]"), 3, ACCEPTED, NULL },
	{ "F6 of part of a byte", TYPED("F6_E3M2", "[5]", "[0,4]"), 4, INVALID,
	  "shape [5] of F6_E3M2 does not come to whole bytes" },

	/* ---- shape ---- */
	{ "scalar", TYPED("F32", "[]", "[0,4]"), 4, ACCEPTED, NULL },
	{ "empty", TYPED("F32", "[0]", "[0,0]"), 0, ACCEPTED, NULL },
	{ "ten dimensions", TYPED("U8", "[1,1,1,1,1,1,1,1,1,3]", "[0,3]"), 3, ACCEPTED, NULL },
	{ "negative", TYPED("F32", "[-4]", "[0,16]"), 16, INVALID,
	  "a negative number where an unsigned integer is expected in shape" },
	{ "negative zero", TYPED("F32", "[-0]", "[0,0]"), 0, INVALID, "a negative number" },
	{ "an exponent", TYPED("F32", "[4e0]", "[0,16]"), 16, INVALID, "no integer of 64 bits" },
	{ "a fraction", TYPED("F32", "[4.0]", "[0,16]"), 16, INVALID, "no integer of 64 bits" },
	{ "2^64", TYPED("U8", "[18446744073709551616]", "[0,0]"), 0, INVALID,
	  "no integer of 64 bits" },
	{ "NaN", TYPED("F32", "[NaN]", "[0,16]"), 16, INVALID, "NaN where a value" },
	{ "shape of a string", TYPED("F32", "[\"4\"]", "[0,16]"), 16, INVALID,
	  "a string where an unsigned integer is expected in shape" },
	{ "shape of true", TYPED("F32", "[true]", "[0,4]"), 4, INVALID,
	  "true where an unsigned integer is expected in shape" },
	{ "shape of an array", TYPED("F32", "[[4]]", "[0,16]"), 16, INVALID,
	  "an array where an unsigned integer is expected in shape" },
	{ "shape null", TYPED("F32", "null", "[0,4]"), 4, INVALID,
	  "null where an array is expected in shape" },
	{ "shape a number", TYPED("F32", "4", "[0,16]"), 16, INVALID,
	  "a number where an array is expected in shape" },
	{ "bits overflow", TYPED("F32", "[576460752303423488]", "[0,16]"), 16, INVALID,
	  "overflows 64 bits" },
	{ "bits overflow by one byte",
	  TYPED("U8", "[2305843009213693952]", "[0,2305843009213693952]"), 0, INVALID,
	  "overflows 64 bits" },
	{ "elements overflow before a zero", TYPED("U8", "[8589934592,8589934592,0]", "[0,0]"), 0,
	  INVALID, "overflows 64 bits" },
	{ "elements overflow after a zero", TYPED("U8", "[0,8589934592,8589934592]", "[0,0]"), 0,
	  ACCEPTED, NULL },
	{ "elements wrap to what fits", TYPED("F32", "[4294967296,4294967296]", "[0,65536]"), 16,
	  INVALID, "overflows 64 bits" },
	{ "all 64 bits", TYPED("U8", "[18446744073709551615]", "[0,18446744073709551615]"), 0,
	  INVALID, "overflows 64 bits" },

	/* ---- data_offsets ---- */
	{ "three offsets", TYPED("F32", "[4]", "[0,16,32]"), 16, INVALID,
	  "a number where the end of exactly two numbers is expected in data_offsets" },
	{ "one offset", TYPED("F32", "[4]", "[16]"), 16, INVALID,
	  "where the second of two unsigned integers is expected in data_offsets" },
	{ "no offset", TYPED("F32", "[4]", "[]"), 16, INVALID,
	  "where the first of two unsigned integers is expected in data_offsets" },
	{ "offsets an object", TYPED("F32", "[4]", "{\"0\":0,\"1\":16}"), 16, INVALID,
	  "an object where an array is expected in data_offsets" },
	{ "offsets of fractions", TYPED("F32", "[4]", "[0.0,16.0]"), 16, INVALID,
	  "no integer of 64 bits" },
	{ "a negative offset", TYPED("F32", "[4]", "[-0,16]"), 16, INVALID, "a negative number" },
	{ "offsets reversed", TYPED("F32", "[4]", "[16,0]"), 16, INVALID,
	  "data_offsets [16, 0] end before they begin" },
	{ "hole at the start", TYPED("F32", "[4]", "[8,24]"), 24, INVALID,
	  "hole of 8 bytes before tensor \"w\"" },
	{ "hole between", PAIR("[4]", "[0,4]", "[4]", "[6,10]"), 10, INVALID,
	  "hole of 2 bytes before tensor \"b\"" },
	{ "the same range", PAIR("[4]", "[0,4]", "[4]", "[0,4]"), 4, INVALID,
	  "tensors \"a\" and \"b\" overlap" },
	{ "overlap", PAIR("[4]", "[0,4]", "[4]", "[3,7]"), 7, INVALID,
	  "tensors \"a\" and \"b\" overlap" },
	{ "empty within another", PAIR("[4]", "[0,4]", "[0]", "[2,2]"), 4, INVALID,
	  "tensors \"a\" and \"b\" overlap" },
	{ "empty at the start of another", PAIR("[4]", "[0,4]", "[0]", "[0,0]"), 4, ACCEPTED,
	  NULL },
	{ "empty at the end", PAIR("[4]", "[0,4]", "[0]", "[4,4]"), 4, ACCEPTED, NULL },
	{ "empty past the end", PAIR("[4]", "[0,4]", "[0]", "[8,8]"), 4, INVALID,
	  "hole of 4 bytes before tensor \"b\"" },
	{ "not in the order of offsets", PAIR("[4]", "[2,6]", "[2]", "[0,2]"), 6, ACCEPTED, NULL },
	{ "size too small", TYPED("F32", "[4,2]", "[0,16]"), 16, INVALID,
	  "shape [4, 2] of F32 comes to 32 bytes, its data_offsets to 16" },
	{ "size too large", TYPED("F32", "[2]", "[0,16]"), 16, INVALID,
	  "shape [2] of F32 comes to 8 bytes, its data_offsets to 16" },
	{ "empty far away, of a size that wraps",
	  TYPED("U8", "[4294967296,4294967296]", "[7000000,7000000]"), 0, INVALID,
	  "hole of 7000000 bytes" },

	/* ---- the file's size ---- */
	{ "a byte too many", NAMED("w"), 17, TRAILING, "1 trailing byte:" },
	{ "bytes too many", NAMED("w"), 30, TRAILING, "14 trailing bytes:" },
	{ "a byte and no tensor", BYTES("{}"), 1, TRAILING, "1 trailing byte:" },
	{ "a byte too few", NAMED("w"), 15, TRUNCATED, "truncated by 1 byte:" },
	{ "no data", NAMED("w"), 0, TRUNCATED, "truncated by 16 bytes:" },
	{ "far past the end", TYPED("F32", "[262144]", "[0,1048576]"), 8, TRUNCATED,
	  "truncated by 1048568 bytes" },
	{ "2^61 - 1 bytes", TYPED("U8", "[2305843009213693951]", "[0,2305843009213693951]"), 0,
	  TRUNCATED, "truncated by 2305843009213693951 bytes" },

	/* ---- names ---- */
	{ "name with NUL", NAMED("w\\u0000x"), 16, INVALID, "NUL character in a key \"w\"" },
	{ "name with a raw control character", NAMED("w\x01"), 16, INVALID,
	  "control character 0x01 in a string" },
	{ "name with half a pair", NAMED("w\\udbff"), 16, INVALID, "surrogate" },
	{ "name with an unknown escape", NAMED("w\\q"), 16, INVALID, "an escape that JSON" },
	{ "name like a path", NAMED("../../../etc/shadow"), 16, ACCEPTED, NULL },
	{ "empty name", NAMED(""), 16, ACCEPTED, NULL },
	{ "name beyond ASCII", NAMED("\xe9\x87\x8d\xe3\x81\xbf"), 16, ACCEPTED, NULL },
	{ "name with an escaped control character, in a message", BYTES("{\"w\\u001b[2J\":null}"),
	  0, INVALID, "tensor \"w\\x1b[2J\": null" },
};

static const struct file_case file_cases[] = {
	{ "empty file", BYTES(""), TRUNCATED, "empty file" },
	{ "one byte", BYTES("\2"), TRUNCATED, "1 of at least 8 bytes, 7 missing" },
	{ "seven bytes", BYTES("\2\0\0\0\0\0\0"), TRUNCATED, "7 of at least 8 bytes, 1 missing" },
	{ "all zero", BYTES("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), INVALID,
	  "zeros where the header should be" },
	{ "a header of 0 bytes", BYTES("\0\0\0\0\0\0\0\0{}"), INVALID, "the text ends" },
	{ "ends with its length", BYTES("\2\0\0\0\0\0\0\0"), TRUNCATED,
	  "8 of at least 10 bytes, 2 missing" },
	{ "ends within its header", BYTES("\5\0\0\0\0\0\0\0{  }"), TRUNCATED,
	  "12 of at least 13 bytes, 1 missing" },
	{ "the largest header, missing", BYTES("\0\xe1\xf5\5\0\0\0\0{}"), TRUNCATED,
	  "10 of at least 100000008 bytes, 99999998 missing" },
	{ "a header over the limit", BYTES("\1\xe1\xf5\5\0\0\0\0{}"), INVALID,
	  "100000001 bytes; the limit is 100000000" },
	{ "a length that wraps", BYTES("\xf8\xff\xff\xff\xff\xff\xff\xff{}    "), INVALID,
	  "18446744073709551608 bytes; the limit" },
	{ "no safetensors of any kind", BYTES("just some text, and no more"), INVALID,
	  "the limit is 100000000" },
	{ "Git LFS pointer",
	  BYTES("version https://git-lfs.github.com/spec/v1\n"
		"oid sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n"
		"size 4976698672\n"),
	  INVALID,
	  "oid sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff and size "
	  "4976698672" },
	{ "Git LFS pointer, cut", BYTES("version https://git-lfs.github.com/spec/v1\n"), INVALID,
	  "oid unknown and size unknown" },
	{ "Git LFS pointer, hostile",
	  BYTES("version https://git-lfs.github.com/spec/v1\noid \x1b[2J\nsize 12\x07\n"), INVALID,
	  "oid unknown and size 12:" },
	{ "zip", BYTES("PK\3\4\0\0\10\10\0\0\0\0\0\0archive/data.pkl"), INVALID, "a zip archive" },
	{ "pickle", BYTES("\x80\2}q\0(X\1\0\0\0wq\1"), INVALID, "a Python pickle" },
	{ "pickle of protocol 4", BYTES("\x80\4\x95\x20\0\0\0\0\0\0\0}"), INVALID,
	  "a Python pickle" },
	{ "GGUF", BYTES("GGUF\3\0\0\0\1\0\0\0\0\0\0\0"), INVALID, "a GGUF file" },
	{ "HTML", BYTES("<!DOCTYPE html><title>Not found</title>"), INVALID, "an HTML page" },
	{ "HTML in other letters", BYTES("\r\n  <hTmL lang=en>"), INVALID, "an HTML page" },
	{ "XML", BYTES("<?xml version=\"1.0\"?><Error/>"), INVALID, "an XML document" },
	{ "JSON", BYTES("{\"metadata\":{\"total_size\":1}}"), INVALID, "a JSON document" },
	{ "JSON with blanks", BYTES("\n\n  {\"weight_map\":{}}"), INVALID, "a JSON document" },
	{ "gzip", BYTES("\x1f\x8b\10\0\0\0\0\0\0\3KL"), INVALID, "a gzip file" },
	{ "xz", BYTES("\xfd\x37zXZ\0\0\4\xe6\xd6"), INVALID, "an xz file" },
	{ "zstd", BYTES("\x28\xb5\x2f\xfd\4\0\1\0\0"), INVALID, "a zstd file" },
	/* A length that looks like something else is no reason to refuse. */
	{ "a header of 123 bytes, which is {",
	  BYTES("{\0\0\0\0\0\0\0{}                                                               "
		"                                                          "),
	  ACCEPTED, NULL },
};

#endif
