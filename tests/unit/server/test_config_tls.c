/* SPDX-License-Identifier: MIT
 *
 * Consistency of the TLS configuration. Other tests cover the files themselves.
 */
#include "server/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void certificate_options_require_each_other(void **state)
{
    (void)state;
    static const struct {
        const char *settings[6]; /* name, value, … */
        const char *said;        /* NULL: accepted */
    } rows[] = {
        {{"tls-cert", "a.pem"}, "1 certificates and 0 keys"},
        {{"tls-key", "a.key"}, "0 certificates and 1 keys"},
        {{"tls-cert", "a.pem", "tls-key", "a.key"}, NULL},
        {{"tls-client-auth", "require"}, "add --tls-cert"},
        {{"tls-client-ca", "ca.pem"}, "add --tls-cert"},
        {{"tls-cert", "a.pem", "tls-key", "a.key", "tls-client-auth", "request"},
         "--tls-client-ca"},
        {{"tls-cert", "a.pem", "tls-key", "a.key", "tls-client-ca", "ca.pem"}, "--tls-client-auth"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct config c;
        struct tidings_error err = {0};
        assert_int_equal(config_init(&c, NULL), 0);
        for (size_t j = 0; j < 6 && rows[i].settings[j]; j += 2) {
            assert_int_equal(
                config_set(&c, rows[i].settings[j], rows[i].settings[j + 1], CONFIG_FLAG, NULL), 0);
        }
        assert_int_equal(config_check(&c, &err), rows[i].said ? TIDINGS_E_INVALID : 0);
        assert_non_null(strstr(err.text, rows[i].said ? rows[i].said : ""));
        config_deinit(&c);
    }
}

static void remote_clients_are_allowed_with_client_certificates(void **state)
{
    (void)state;
    static const char *const auths[] = {"request", "require"};
    for (size_t i = 0; i < 2; i++) {
        struct config c;
        assert_int_equal(config_init(&c, NULL), 0);
        config_set(&c, "http", "0.0.0.0:0", CONFIG_FLAG, NULL);
        config_set(&c, "tls-cert", "a.pem", CONFIG_FLAG, NULL);
        config_set(&c, "tls-key", "a.key", CONFIG_FLAG, NULL);
        config_set(&c, "tls-client-ca", "ca.pem", CONFIG_FLAG, NULL);
        assert_int_equal(config_set(&c, "tls-client-auth", auths[i], CONFIG_FLAG, NULL), 0);
        assert_int_equal(config_check(&c, NULL), i == 1 ? 0 : TIDINGS_E_DENIED);
        config_deinit(&c);
    }
}

static void relative_files_resolve_from_configuration_folder(void **state)
{
    (void)state;
    struct config c;
    assert_int_equal(config_init(&c, NULL), 0);
    assert_int_equal(
        config_load_text(&c, "conf/tidings.json",
                         STR("{\"tlsCert\": [\"a.pem\", \"/b.pem\"], \"tlsClientCa\": \"ca.pem\"}"),
                         NULL),
        0);
    assert_string_equal(c.tls_cert.items[0], "conf/a.pem");
    assert_string_equal(c.tls_cert.items[1], "/b.pem");
    assert_string_equal(c.tls_client_ca, "conf/ca.pem");
    config_deinit(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(certificate_options_require_each_other),
        cmocka_unit_test(remote_clients_are_allowed_with_client_certificates),
        cmocka_unit_test(relative_files_resolve_from_configuration_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
