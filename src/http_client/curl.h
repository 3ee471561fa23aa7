/* SPDX-License-Identifier: MIT
 *
 * libcurl as a table of functions, loaded at run time: together with its TLS library it costs 6 ms
 * and 6 MiB at start, which only those who connect somewhere should pay.
 */
#ifndef HTTP_CLIENT_CURL_H
#define HTTP_CLIENT_CURL_H

#include <tidings/types.h>

#include <curl/curl.h>

/* Name in the table, name in the library. */
#define CURL_FUNCTIONS(X)                                                                          \
    X(global_init, curl_global_init)                                                               \
    X(global_cleanup, curl_global_cleanup)                                                         \
    X(version, curl_version)                                                                       \
    X(easy_init, curl_easy_init)                                                                   \
    X(easy_cleanup, curl_easy_cleanup)                                                             \
    X(easy_setopt, curl_easy_setopt)                                                               \
    X(easy_getinfo, curl_easy_getinfo)                                                             \
    X(easy_strerror, curl_easy_strerror)                                                           \
    X(easy_send, curl_easy_send)                                                                   \
    X(easy_recv, curl_easy_recv)                                                                   \
    X(slist_append, curl_slist_append)                                                             \
    X(slist_free_all, curl_slist_free_all)                                                         \
    X(multi_init, curl_multi_init)                                                                 \
    X(multi_cleanup, curl_multi_cleanup)                                                           \
    X(multi_add_handle, curl_multi_add_handle)                                                     \
    X(multi_remove_handle, curl_multi_remove_handle)                                               \
    X(multi_setopt, curl_multi_setopt)                                                             \
    X(multi_assign, curl_multi_assign)                                                             \
    X(multi_socket_action, curl_multi_socket_action)                                               \
    X(multi_info_read, curl_multi_info_read)                                                       \
    X(multi_strerror, curl_multi_strerror)

struct curl_api {
#define CURL_FUNCTION_FIELD(field, symbol) __typeof__(&symbol) field;
    CURL_FUNCTIONS(CURL_FUNCTION_FIELD)
#undef CURL_FUNCTION_FIELD
};

/* TIDINGS_E_UNSUPPORTED when the library is not there or lacks something. */
int curl_load(struct curl_api *api, struct tidings_error *err);
void curl_unload(struct curl_api *api); /* also of one that was never loaded (zeroed) */

#endif
