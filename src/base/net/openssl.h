/* SPDX-License-Identifier: MIT
 *
 * OpenSSL as a table of functions, loaded on first use: programs without TLS do not pay for it, and
 * run where it is not installed. Private to base/net/tls*, security/signature.c and
 * security/seal.c.
 */
#ifndef BASE_NET_OPENSSL_H
#define BASE_NET_OPENSSL_H

#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <tidings/types.h>

#define TLS_FUNCTIONS(X)                                                                           \
    X(ASN1_STRING_get0_data)                                                                       \
    X(ASN1_STRING_length)                                                                          \
    X(ASN1_TIME_to_tm)                                                                             \
    X(BIO_clear_flags)                                                                             \
    X(BIO_ctrl)                                                                                    \
    X(BIO_free)                                                                                    \
    X(BIO_get_data)                                                                                \
    X(BIO_meth_free)                                                                               \
    X(BIO_meth_new)                                                                                \
    X(BIO_meth_set_ctrl)                                                                           \
    X(BIO_meth_set_read)                                                                           \
    X(BIO_meth_set_write)                                                                          \
    X(BIO_new)                                                                                     \
    X(BIO_new_mem_buf)                                                                             \
    X(BIO_s_mem)                                                                                   \
    X(BIO_set_data)                                                                                \
    X(BIO_set_flags)                                                                               \
    X(BIO_set_init)                                                                                \
    X(BN_bin2bn)                                                                                   \
    X(BN_bn2binpad)                                                                                \
    X(BN_bn2nativepad)                                                                             \
    X(BN_free)                                                                                     \
    X(ECDSA_SIG_free)                                                                              \
    X(ECDSA_SIG_get0)                                                                              \
    X(ECDSA_SIG_new)                                                                               \
    X(ECDSA_SIG_set0)                                                                              \
    X(ERR_clear_error)                                                                             \
    X(ERR_peek_error)                                                                              \
    X(ERR_peek_last_error)                                                                         \
    X(ERR_reason_error_string)                                                                     \
    X(EVP_CIPHER_CTX_ctrl)                                                                         \
    X(EVP_CIPHER_CTX_free)                                                                         \
    X(EVP_CIPHER_CTX_new)                                                                          \
    X(EVP_DecryptFinal_ex)                                                                         \
    X(EVP_DecryptInit_ex)                                                                          \
    X(EVP_DecryptUpdate)                                                                           \
    X(EVP_DigestSign)                                                                              \
    X(EVP_DigestSignInit_ex)                                                                       \
    X(EVP_DigestVerify)                                                                            \
    X(EVP_DigestVerifyInit_ex)                                                                     \
    X(EVP_EncryptFinal_ex)                                                                         \
    X(EVP_EncryptInit_ex)                                                                          \
    X(EVP_EncryptUpdate)                                                                           \
    X(EVP_MAC_CTX_set_params)                                                                      \
    X(EVP_MD_CTX_free)                                                                             \
    X(EVP_MD_CTX_new)                                                                              \
    X(EVP_PKEY_CTX_free)                                                                           \
    X(EVP_PKEY_CTX_new_from_name)                                                                  \
    X(EVP_PKEY_CTX_set_rsa_padding)                                                                \
    X(EVP_PKEY_CTX_set_rsa_pss_saltlen)                                                            \
    X(EVP_PKEY_Q_keygen)                                                                           \
    X(EVP_PKEY_free)                                                                               \
    X(EVP_PKEY_fromdata)                                                                           \
    X(EVP_PKEY_fromdata_init)                                                                      \
    X(EVP_PKEY_get_bits)                                                                           \
    X(EVP_PKEY_get_octet_string_param)                                                             \
    X(EVP_PKEY_get_utf8_string_param)                                                              \
    X(EVP_PKEY_is_a)                                                                               \
    X(EVP_PKEY_new_raw_public_key_ex)                                                              \
    X(EVP_aes_256_cbc)                                                                             \
    X(EVP_aes_256_gcm)                                                                             \
    X(EVP_sha256)                                                                                  \
    X(GENERAL_NAMES_free)                                                                          \
    X(OPENSSL_sk_num)                                                                              \
    X(OPENSSL_sk_value)                                                                            \
    X(OSSL_PARAM_construct_BN)                                                                     \
    X(OSSL_PARAM_construct_end)                                                                    \
    X(OSSL_PARAM_construct_octet_string)                                                           \
    X(OSSL_PARAM_construct_utf8_string)                                                            \
    X(OpenSSL_version)                                                                             \
    X(PEM_read_bio_PrivateKey)                                                                     \
    X(PEM_write_bio_PKCS8PrivateKey)                                                               \
    X(SSL_CTX_callback_ctrl)                                                                       \
    X(SSL_CTX_check_private_key)                                                                   \
    X(SSL_CTX_ctrl)                                                                                \
    X(SSL_CTX_free)                                                                                \
    X(SSL_CTX_get0_certificate)                                                                    \
    X(SSL_CTX_load_verify_file)                                                                    \
    X(SSL_CTX_new)                                                                                 \
    X(SSL_CTX_set_alpn_select_cb)                                                                  \
    X(SSL_CTX_set_client_CA_list)                                                                  \
    X(SSL_CTX_set_default_passwd_cb)                                                               \
    X(SSL_CTX_set_default_passwd_cb_userdata)                                                      \
    X(SSL_CTX_set_options)                                                                         \
    X(SSL_CTX_set_session_id_context)                                                              \
    X(SSL_CTX_set_session_ticket_cb)                                                               \
    X(SSL_CTX_set_timeout)                                                                         \
    X(SSL_CTX_set_tlsext_ticket_key_evp_cb)                                                        \
    X(SSL_CTX_set_verify)                                                                          \
    X(SSL_CTX_use_PrivateKey_file)                                                                 \
    X(SSL_CTX_use_certificate_chain_file)                                                          \
    X(SSL_SESSION_get0_peer)                                                                       \
    X(SSL_free)                                                                                    \
    X(SSL_get1_peer_certificate)                                                                   \
    X(SSL_get_error)                                                                               \
    X(SSL_get_ex_data)                                                                             \
    X(SSL_get_servername)                                                                          \
    X(SSL_is_init_finished)                                                                        \
    X(SSL_load_client_CA_file)                                                                     \
    X(SSL_new)                                                                                     \
    X(SSL_read)                                                                                    \
    X(SSL_set_SSL_CTX)                                                                             \
    X(SSL_set_accept_state)                                                                        \
    X(SSL_set_bio)                                                                                 \
    X(SSL_set_ex_data)                                                                             \
    X(SSL_shutdown)                                                                                \
    X(SSL_write)                                                                                   \
    X(TLS_server_method)                                                                           \
    X(X509_NAME_print_ex)                                                                          \
    X(X509_cmp_current_time)                                                                       \
    X(X509_digest)                                                                                 \
    X(X509_free)                                                                                   \
    X(X509_get0_notAfter)                                                                          \
    X(X509_get0_notBefore)                                                                         \
    X(X509_get_ext_d2i)                                                                            \
    X(X509_get_subject_name)                                                                       \
    X(d2i_ECDSA_SIG)                                                                               \
    X(i2d_ECDSA_SIG)

struct tls_api {
#define TLS_FIELD(name) __typeof__(&name) name;
    TLS_FUNCTIONS(TLS_FIELD)
#undef TLS_FIELD
};

/* Set by tls_api_load, and then the same for all threads: OpenSSL's callbacks have no argument for
 * another table. */
extern struct tls_api tls_api;

/* Any thread. It stays loaded: OpenSSL cannot be unloaded safely. TIDINGS_E_UNSUPPORTED. */
int tls_api_load(struct tidings_error *err);

/* OpenSSL's message for the first failure in this thread's error queue. */
const char *tls_api_reason(void);

#endif
