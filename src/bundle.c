/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes bundles. The reader knows every member that the format has and refuses any
 * other: what is around the signed payload is not signed, so nothing in it may go unnoticed.
 */
#include "bundle.h"

#include <string.h>

#include "base64.h"
#include "json_members.h"
#include "report.h"

#define MEDIA_TYPE_OLDER "application/vnd.dev.sigstore.bundle+json;version=0."
#define LIKELY_BYTES 4096 /* of a document, where the first keys are looked for */

/* Which of the members that exclude one another are there. */
struct reading {
	struct rsum_bundle *out;
	bool is_older; /* the media type is that of an older form */
	bool has_key;
	bool has_chain;
	bool has_certificate;
	size_t signature_count;
};

/* ---- values ------------------------------------------------------------------------------ */

/* Base64 that is decoded where it stands: a value is never looked at again by the reader. */
static int take_bytes(struct rsum_json *json, const struct rsum_json_token *token, const char *name,
		      size_t limit_bytes, struct rsum_bytes *out)
{
	const char *text;
	int ret = rsum_json_take_text(json, token, name, &text);

	if (ret)
		return ret;
	out->data = (const uint8_t *)text;
	if (!rsum_base64_decode(text, token->length, (uint8_t *)token->string, &out->size_bytes))
		return rsum_json_refuse(json, token->offset,
					"%s is not base64 (standard alphabet, padded)", name);
	if (out->size_bytes == 0 || out->size_bytes > limit_bytes)
		return rsum_json_refuse(json, token->offset, "%s has %zu bytes; expected 1 to %zu",
					name, out->size_bytes, limit_bytes);
	return 0;
}

static int read_media_type(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	struct reading *reading = arg;
	size_t length = strlen(MEDIA_TYPE_OLDER);
	const char *text;
	int ret = rsum_json_take_text(json, token, "mediaType", &text);

	if (ret || strcmp(text, RSUM_BUNDLE_MEDIA_TYPE) == 0)
		return ret;
	reading->is_older = true;
	if (token->length == length + 1 && strncmp(text, MEDIA_TYPE_OLDER, length) == 0 &&
	    text[length] >= '1' && text[length] <= '3')
		return 0;
	return rsum_json_refuse(json, token->offset,
				"mediaType is not that of a Sigstore bundle, version 0.1 to 0.3");
}

/* ---- verificationMaterial ------------------------------------------------------------------ */

static int read_hint(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	struct reading *reading = arg;

	return rsum_json_take_text(json, token, "hint", &reading->out->hint);
}

static int read_key_details(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	struct reading *reading = arg;

	return rsum_json_take_text(json, token, "keyDetails", &reading->out->key_details);
}

static int read_key_raw(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	struct reading *reading = arg;

	return take_bytes(json, token, "rawBytes", RSUM_LIMIT_CERTIFICATE_BYTES,
			  &reading->out->key_raw);
}

static int read_public_key(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	static const struct rsum_json_member members[] = {
		{ "hint", read_hint, false },
		{ "rawBytes", read_key_raw, false },
		{ "keyDetails", read_key_details, false },
	};
	static const struct rsum_json_shape shape = { "publicKey", members, 3, true };
	struct reading *reading = arg;

	reading->has_key = true;
	return rsum_json_read_object(json, token, &shape, arg);
}

static int read_certificate_bytes(struct rsum_json *json, const struct rsum_json_token *token,
				  void *arg)
{
	struct reading *reading = arg;
	struct rsum_bundle *out = reading->out;

	if (out->certificate_count == RSUM_LIMIT_CERTIFICATES)
		return rsum_json_refuse(json, token->offset,
					"more than %d certificates; that is the limit",
					RSUM_LIMIT_CERTIFICATES);
	return take_bytes(json, token, "a certificate", RSUM_LIMIT_CERTIFICATE_BYTES,
			  &out->certificates[out->certificate_count++]);
}

static int read_certificate(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	static const struct rsum_json_member members[] = {
		{ "rawBytes", read_certificate_bytes, true },
	};
	static const struct rsum_json_shape shape = { "a certificate", members, 1, true };

	return rsum_json_read_object(json, token, &shape, arg);
}

static int read_lone_certificate(struct rsum_json *json, const struct rsum_json_token *token,
				 void *arg)
{
	struct reading *reading = arg;

	reading->has_certificate = true;
	return read_certificate(json, token, arg);
}

static int read_certificates(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	return rsum_json_read_list(json, token, "certificates", read_certificate, arg);
}

static int read_chain(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	static const struct rsum_json_member members[] = {
		{ "certificates", read_certificates, true },
	};
	static const struct rsum_json_shape shape = { "x509CertificateChain", members, 1, true };
	struct reading *reading = arg;

	reading->has_chain = true;
	return rsum_json_read_object(json, token, &shape, arg);
}

/* What a log or a clock confirms is for signing without keys, and not weighed here. */
static int pass_over_entry(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	(void)arg;
	return rsum_json_skip(json, token);
}

static int read_log_entries(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	return rsum_json_read_list(json, token, "tlogEntries", pass_over_entry, arg);
}

static int read_material(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	static const struct rsum_json_member members[] = {
		{ "publicKey", read_public_key, false },
		{ "x509CertificateChain", read_chain, false },
		{ "certificate", read_lone_certificate, false },
		{ "tlogEntries", read_log_entries, false },
		{ "timestampVerificationData", NULL, false },
	};
	static const struct rsum_json_shape shape = { "verificationMaterial", members, 5, true };
	struct reading *reading = arg;
	int ret = rsum_json_read_object(json, token, &shape, arg);

	if (ret)
		return ret;
	if (reading->has_key + reading->has_chain + reading->has_certificate != 1)
		return rsum_json_refuse(
			json, token->offset,
			"verificationMaterial has to have exactly one of publicKey, "
			"x509CertificateChain and certificate");
	if (!reading->has_key && reading->out->certificate_count == 0)
		return rsum_json_refuse(json, token->offset, "the certificate chain is empty");
	return 0;
}

/* ---- dsseEnvelope -------------------------------------------------------------------------- */

static int read_payload(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	struct reading *reading = arg;
	struct rsum_bytes payload = { 0 };
	int ret = take_bytes(json, token, "the payload", RSUM_LIMIT_BUNDLE_BYTES, &payload);

	reading->out->payload = token->string;
	reading->out->payload_bytes = payload.size_bytes;
	return ret;
}

static int read_payload_type(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	const char *text;
	int ret = rsum_json_take_text(json, token, "payloadType", &text);

	(void)arg;
	if (!ret && strcmp(text, RSUM_BUNDLE_PAYLOAD_TYPE) != 0)
		return rsum_json_refuse(json, token->offset,
					"payloadType is not \"" RSUM_BUNDLE_PAYLOAD_TYPE "\"");
	return ret;
}

static int read_signature_bytes(struct rsum_json *json, const struct rsum_json_token *token,
				void *arg)
{
	struct reading *reading = arg;

	return take_bytes(json, token, "the signature", RSUM_LIMIT_SIGNATURE_BYTES,
			  &reading->out->signature);
}

/* A keyid is a hint that nobody signs; the DSSE specification has verifiers decide without it. */
static int read_key_id(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	const char *text;

	(void)arg;
	return rsum_json_take_text(json, token, "keyid", &text);
}

static int read_signature(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	static const struct rsum_json_member members[] = {
		{ "sig", read_signature_bytes, true },
		{ "keyid", read_key_id, false },
	};
	static const struct rsum_json_shape shape = { "a signature", members, 2, true };
	struct reading *reading = arg;

	if (reading->signature_count++ > 0)
		return rsum_json_refuse(json, token->offset,
					"more than one signature; a bundle has exactly one");
	return rsum_json_read_object(json, token, &shape, arg);
}

static int read_signatures(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	struct reading *reading = arg;
	int ret = rsum_json_read_list(json, token, "signatures", read_signature, arg);

	if (!ret && reading->signature_count == 0)
		return rsum_json_refuse(json, token->offset, "there is no signature");
	return ret;
}

static int read_envelope(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	static const struct rsum_json_member members[] = {
		{ "payload", read_payload, true },
		{ "payloadType", read_payload_type, true },
		{ "signatures", read_signatures, true },
	};
	static const struct rsum_json_shape shape = { "dsseEnvelope", members, 3, true };

	return rsum_json_read_object(json, token, &shape, arg);
}

static int refuse_message_signature(struct rsum_json *json, const struct rsum_json_token *token,
				    void *arg)
{
	(void)arg;
	return rsum_json_refuse(json, token->offset,
				"messageSignature signs one file's bytes; expected dsseEnvelope, "
				"as model signing writes it");
}

/* ---- the document -------------------------------------------------------------------------- */

static const struct rsum_json_member bundle_members[] = {
	{ "mediaType", read_media_type, true },
	{ "verificationMaterial", read_material, true },
	{ "messageSignature", refuse_message_signature, false },
	{ "dsseEnvelope", read_envelope, true },
};

static const struct rsum_json_shape bundle_shape = { "the bundle", bundle_members, 4, true };

int rsum_bundle_read(char *text, size_t size_bytes, struct rsum_bundle *out,
		     char reason[RSUM_BUNDLE_REASON_BYTES])
{
	struct reading reading = { .out = out };
	struct rsum_json json;
	int ret;

	*out = (struct rsum_bundle){ 0 };
	if (size_bytes > RSUM_LIMIT_BUNDLE_BYTES) {
		snprintf(reason, RSUM_BUNDLE_REASON_BYTES,
			 "it is larger than %llu bytes, which is the limit",
			 (unsigned long long)RSUM_LIMIT_BUNDLE_BYTES);
		return RINGSUM_E_REFUSED;
	}
	ret = rsum_json_init(&json, text, size_bytes, RSUM_LIMIT_JSON_DEPTH);
	if (!ret)
		ret = rsum_json_read_document(&json, &bundle_shape, &reading);
	if (ret == RINGSUM_E_REFUSED || ret == RINGSUM_E_LIMIT) {
		ret = RINGSUM_E_REFUSED;
		snprintf(reason, RSUM_BUNDLE_REASON_BYTES, "at byte %zu: %s", json.error_offset,
			 json.reason);
	}
	rsum_json_deinit(&json);
	if (ret)
		return ret;
	/* What older forms call a chain came with a log's entry: the form of signing without keys. */
	out->material = reading.has_key				 ? RSUM_BUNDLE_KEY
			: reading.has_chain && !reading.is_older ? RSUM_BUNDLE_CERTIFICATES
								 : RSUM_BUNDLE_KEYLESS;
	if (reading.has_key && reading.is_older) {
		snprintf(reason, RSUM_BUNDLE_REASON_BYTES,
			 "mediaType is that of an older form, which has no signatures by key; "
			 "expected \"%s\"",
			 RSUM_BUNDLE_MEDIA_TYPE);
		return RINGSUM_E_REFUSED;
	}
	return 0;
}

bool rsum_bundle_is_likely(const char *text, size_t size_bytes)
{
	static const char *const keys[] = { "\"mediaType\"", "\"verificationMaterial\"",
					    "\"dsseEnvelope\"", "\"messageSignature\"" };
	size_t looked_at = RSUM_MIN(size_bytes, (size_t)LIKELY_BYTES), blanks = 0;

	while (blanks < looked_at && memchr(" \t\r\n", text[blanks], 4))
		blanks++;
	if (blanks == looked_at || text[blanks] != '{')
		return false;
	for (blanks++; blanks < looked_at && memchr(" \t\r\n", text[blanks], 4);)
		blanks++;
	for (size_t i = 0; i < RSUM_COUNT_OF(keys); i++) {
		size_t length = strlen(keys[i]);

		if (size_bytes - blanks >= length && memcmp(text + blanks, keys[i], length) == 0)
			return true;
	}
	return false;
}

/* ---- writing ------------------------------------------------------------------------------- */

static void append_bytes(struct rsum_text *text, const struct rsum_bytes *bytes)
{
	char *encoded = rsum_base64_encode(bytes->data, bytes->size_bytes);

	if (!encoded) {
		text->has_failed = true;
		return;
	}
	rsum_text_append(text, "\"", 1);
	rsum_text_append(text, encoded, strlen(encoded));
	rsum_text_append(text, "\"", 1);
	free(encoded);
}

static void append_material(struct rsum_text *text, const char *hint,
			    const struct rsum_bytes *certificates, size_t certificate_count)
{
	if (certificate_count == 0) {
		rsum_text_printf(text, "\"publicKey\":{\"hint\":\"%s\"}", hint);
		return;
	}
	rsum_text_printf(text, "\"x509CertificateChain\":{\"certificates\":[");
	for (size_t i = 0; i < certificate_count; i++) {
		rsum_text_printf(text, "%s{\"rawBytes\":", i ? "," : "");
		append_bytes(text, &certificates[i]);
		rsum_text_printf(text, "}");
	}
	rsum_text_printf(text, "]}");
}

int rsum_bundle_write(const struct rsum_bytes *payload, const struct rsum_bytes *signature,
		      const char *hint, const struct rsum_bytes *certificates,
		      size_t certificate_count, char **text_out)
{
	struct rsum_text text = { 0 };

	rsum_text_printf(&text, "{\"mediaType\":\"%s\",\"verificationMaterial\":{",
			 RSUM_BUNDLE_MEDIA_TYPE);
	append_material(&text, hint, certificates, certificate_count);
	rsum_text_printf(&text, ",\"tlogEntries\":[]},\"dsseEnvelope\":{\"payload\":");
	append_bytes(&text, payload);
	rsum_text_printf(&text, ",\"payloadType\":\"%s\",\"signatures\":[{\"sig\":",
			 RSUM_BUNDLE_PAYLOAD_TYPE);
	append_bytes(&text, signature);
	rsum_text_printf(&text, ",\"keyid\":\"\"}]}}\n");
	return rsum_text_finish(&text, text_out);
}
