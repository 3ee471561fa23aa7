/* SPDX-License-Identifier: MIT
 *
 * The types of JSON values, as a parser tells them apart.
 */
#ifndef JSON_TYPE_H
#define JSON_TYPE_H

#include <tidings/types.h>

struct json; /* a value inside a document, or a document's root */

enum jv_type {
    JV_NULL,
    JV_FALSE,
    JV_TRUE,
    JV_INT,
    JV_REAL,
    JV_STRING,
    JV_ARRAY,
    JV_OBJECT,
};

#endif
