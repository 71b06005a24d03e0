/* SPDX-License-Identifier: Apache-2.0 */
/* ringsum sign: a list of files goes into a bundle with a signature around it. */
#include "arguments.h"
#include "output.h"
#include "ringsum.h"

#include <stdio.h>
#include <string.h>

struct sign_arguments {
	struct ringsum_sign_options options;
	const char *output; /* a file, or "-"; NULL until it is given */
};

static const struct option_row rows[] = {
	{ "key", 0, OPTION_FILE, "FILE",
	  "the private key (PEM): ECDSA on P-256, P-384 or P-521, or Ed25519",
	  OPTION_INTO(struct sign_arguments, options.key_path) },
	{ "passphrase-file", 0, OPTION_FILE, "FILE",
	  "a file whose first line is the key's passphrase",
	  OPTION_INTO(struct sign_arguments, options.passphrase_path) },
	{ "certificates", 0, OPTION_FILE, "FILE",
	  "certificates (PEM) to send along, the key's first; without them verifiers need the "
	  "public key",
	  OPTION_INTO(struct sign_arguments, options.certificates_path) },
	{ "output", 'o', OPTION_FILE, "FILE",
	  "write to FILE, which is replaced; default: standard output",
	  OPTION_INTO(struct sign_arguments, output) },
	{ .name = NULL },
};

const struct command command_sign = {
	.name = "sign",
	.operands = "STATEMENT",
	.summary = "sign a list of files, as OpenSSF model signing has it",
	.about = "Signs STATEMENT, the list of files of OpenSSF model signing (in-toto JSON), and "
		 "writes a Sigstore bundle (model.sig) with it and its signature. The statement "
		 "is checked as a verifier would check it; no file that it lists is read.",
	.notes =
		"Other verifiers of such bundles, the reference implementation among them, know "
		"ECDSA but not Ed25519.\n"
		"Exit status: 0 the bundle is written; 1 STATEMENT is refused; 2 wrong usage, also "
		"where a key cannot be used; 3 a file could not be read or written.",
	.run = cmd_sign,
	.tables = { rows },
};

#define complain(...) command_complain(&command_sign, __VA_ARGS__)

static int complain_of(int result, const struct ringsum_error *err)
{
	int status = result == RINGSUM_E_REFUSED   ? COMMAND_REFUSED
		     : result == RINGSUM_E_INVALID ? COMMAND_USAGE
						   : COMMAND_UNDECIDED;

	return complain(status, "%s", err->message[0] ? err->message : ringsum_result_text(result));
}

int cmd_sign(int argc, char **argv)
{
	struct sign_arguments arguments = { .options = RINGSUM_SIGN_OPTIONS_INIT };
	struct ringsum_error err = { 0 };
	struct operands operands;
	char *bundle = NULL;
	int status = arguments_parse(&command_sign, argc, argv, &arguments, &operands);
	int result;

	if (status != ARGUMENTS_GOOD)
		return status;
	if (operands.count != 1)
		return complain(COMMAND_USAGE, "%s; see ringsum sign --help",
				operands.count ? "one STATEMENT at a time"
					       : "STATEMENT is missing");
	if (!arguments.options.key_path)
		return complain(COMMAND_USAGE, "--key is missing; see ringsum sign --help");
	result = ringsum_sign(operands.words[0], &arguments.options, &bundle, &err);
	if (result == RINGSUM_OK)
		result = output_write_all(arguments.output ? arguments.output : "-", bundle, &err);
	ringsum_free(bundle);
	return result == RINGSUM_OK ? COMMAND_OK : complain_of(result, &err);
}
