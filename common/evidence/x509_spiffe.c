// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "common/evidence/x509.h"
#include "common/evidence/x509_internal.h"

bool berth_x509_spiffe_id(const char *certificate, char **id, struct berth_error *err)
{
	AUTO_OPENSSL(X509) *parsed = evidence_certificate_parse(certificate, err);
	if (!parsed) {
		return false;
	}
	AUTO_OPENSSL(GENERAL_NAMES) *names = X509_get_ext_d2i(parsed, NID_subject_alt_name, NULL, NULL);
	const GENERAL_NAME *only = NULL;
	for (int i = 0; names && i < sk_GENERAL_NAME_num(names); i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
		if (name->type == GEN_URI && only) {
			return berth_fail(err, BERTH_ERROR_INVALID, "the certificate has more than one URI name");
		}
		only = name->type == GEN_URI ? name : only;
	}
	if (!only) {
		return berth_fail(err, BERTH_ERROR_INVALID, "the certificate names nobody (no URI name)");
	}
	BERTH_AUTO_FREE char *uri = berth_strndup(
		(const char *)ASN1_STRING_get0_data(only->d.ia5), (size_t)ASN1_STRING_length(only->d.ia5));
	if (strlen(uri) != (size_t)ASN1_STRING_length(only->d.ia5)) {
		return berth_fail(err, BERTH_ERROR_INVALID, "the certificate's URI name has a NUL in it");
	}
	*id = BERTH_STEAL(uri);
	return true;
}
