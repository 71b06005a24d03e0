/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one statement that the key of the signing target has signed. The key is for fuzzing alone:
 * everybody has it.
 */
#ifndef FUZZ_SIGNED_H
#define FUZZ_SIGNED_H

#define FUZZ_SIGNED_PRIVATE_KEY                                              \
	"-----BEGIN PRIVATE KEY-----\n"                                      \
	"MC4CAQAwBQYDK2VwBCIEIMn0RrXajR6kvNLw2eLVgNqMUKWyxRbfVVXVBTb0y1SN\n" \
	"-----END PRIVATE KEY-----\n"

#define FUZZ_SIGNED_PUBLIC_KEY                                           \
	"-----BEGIN PUBLIC KEY-----\n"                                   \
	"MCowBQYDK2VwAyEAJmBjr7tyVmh39lJ2kRm1LQXf733OYVdvlPz0K+dyRLM=\n" \
	"-----END PUBLIC KEY-----\n"

#define FUZZ_SIGNED_STATEMENT                                                          \
	"{\"_type\":\"https://in-toto.io/Statement/v1\",\"subject\":[{\"name\":\"m\"," \
	"\"digest\":{\"sha256\":"                                                      \
	"\"5df6e0e2761359d30a8275058e299fcc0381534545f55cf43e41983f5d4c9456\"}}],"     \
	"\"predicateType\":\"https://model_signing/signature/v1.0\",\"predicate\":{"   \
	"\"serialization\":{\"method\":\"files\",\"hash_type\":\"sha256\"},"           \
	"\"resources\":[{\"name\":\"f\",\"algorithm\":\"sha256\",\"digest\":"          \
	"\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"}]}}"

/* A root of P-256 that nobody has the key of any more. */
#define FUZZ_SIGNED_AUTHORITY                                                \
	"-----BEGIN CERTIFICATE-----\n"                                      \
	"MIIBdjCCAR2gAwIBAgIUa6K05Sb0D8AXRXqBjMkKWGEQMBowCgYIKoZIzj0EAwIw\n" \
	"ETEPMA0GA1UEAwwGTm9ib2R5MB4XDTI2MTIwMTE1NDYwNloXDTM2MTEyODE1NDYw\n" \
	"NlowETEPMA0GA1UEAwwGTm9ib2R5MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n" \
	"UvpTeQnpn+/7nn4WrlpV2n/lY4dOZ+AMHztm76i5PtFomZC+EJLUR6CUyA2SlDxC\n" \
	"ssxr23xIcaWg3nZt+O9qI6NTMFEwHQYDVR0OBBYEFL9FwDfnepqyKEI2qQgAQwmI\n" \
	"TY73MB8GA1UdIwQYMBaAFL9FwDfnepqyKEI2qQgAQwmITY73MA8GA1UdEwEB/wQF\n" \
	"MAMBAf8wCgYIKoZIzj0EAwIDRwAwRAIgdfwnHtH9DPZesVCj5yYm6fkGGy4Dd8DY\n" \
	"ft/rjFa+LhcCIDkHDyvnHc4rT3SN+N5e2vEtZjBnvmCmB0xI5LdvJpHV\n"         \
	"-----END CERTIFICATE-----\n"

#endif
