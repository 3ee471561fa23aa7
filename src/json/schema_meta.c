/* SPDX-License-Identifier: MIT
 *
 * The standard metaschema of draft 2020-12 and its vocabularies, reduced to what they assert: no
 * titles, defaults or comments. Parsed only when a schema refers to them.
 */
#include "json/schema_private.h"

#define BASE "https://json-schema.org/draft/2020-12/"
#define META(name)                                                                                 \
    "{\"$id\":\"" BASE "meta/" name "\",\"$dynamicAnchor\":\"meta\","                              \
    "\"type\":[\"object\",\"boolean\"],"
#define ANY "{\"$dynamicRef\":\"#meta\"}"
#define LIST "{\"type\":\"array\",\"minItems\":1,\"items\":" ANY "}"
#define MAP "{\"type\":\"object\",\"additionalProperties\":" ANY "}"
#define COUNT "{\"type\":\"integer\",\"minimum\":0}"
#define NAMES "{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"uniqueItems\":true}"
#define TEXT "{\"type\":\"string\"}"
#define FLAG "{\"type\":\"boolean\"}"
#define NUMBER "{\"type\":\"number\"}"
#define SIMPLE_TYPE                                                                                \
    "{\"enum\":[\"array\",\"boolean\",\"integer\",\"null\",\"number\",\"object\",\"string\"]}"
#define ANCHOR "{\"type\":\"string\",\"pattern\":\"^[A-Za-z_][-A-Za-z0-9._]*$\"}"

static const struct {
    const char *uri, *text;
} documents[] = {
    {BASE "schema",
     "{\"$id\":\"" BASE "schema\",\"$dynamicAnchor\":\"meta\","
     "\"$vocabulary\":{\"" BASE "vocab/core\":true,\"" BASE "vocab/applicator\":true,"
     "\"" BASE "vocab/unevaluated\":true,\"" BASE "vocab/validation\":true,"
     "\"" BASE "vocab/meta-data\":true,\"" BASE "vocab/format-annotation\":true,"
     "\"" BASE "vocab/content\":true},"
     "\"allOf\":[{\"$ref\":\"meta/core\"},{\"$ref\":\"meta/applicator\"},"
     "{\"$ref\":\"meta/unevaluated\"},{\"$ref\":\"meta/validation\"},"
     "{\"$ref\":\"meta/meta-data\"},{\"$ref\":\"meta/format-annotation\"},"
     "{\"$ref\":\"meta/content\"}],"
     "\"type\":[\"object\",\"boolean\"],"
     "\"properties\":{\"definitions\":" MAP ",\"dependencies\":{\"type\":\"object\","
     "\"additionalProperties\":{\"anyOf\":[" ANY "," NAMES "]}},"
     "\"$recursiveAnchor\":" ANCHOR ",\"$recursiveRef\":" TEXT "}}"},
    {BASE "meta/core",
     META("core") "\"properties\":{\"$id\":{\"type\":\"string\",\"pattern\":\"^[^#]*#?$\"},"
                  "\"$schema\":" TEXT ",\"$ref\":" TEXT ",\"$anchor\":" ANCHOR ","
                  "\"$dynamicRef\":" TEXT ",\"$dynamicAnchor\":" ANCHOR ","
                  "\"$vocabulary\":{\"type\":\"object\",\"additionalProperties\":" FLAG "},"
                  "\"$comment\":" TEXT ",\"$defs\":" MAP "}}"},
    {BASE "meta/applicator",
     META("applicator") "\"properties\":{\"prefixItems\":" LIST ",\"items\":" ANY ","
                        "\"contains\":" ANY ",\"additionalProperties\":" ANY ","
                        "\"properties\":" MAP ",\"patternProperties\":" MAP ","
                        "\"dependentSchemas\":" MAP ",\"propertyNames\":" ANY ",\"if\":" ANY ","
                        "\"then\":" ANY ",\"else\":" ANY ",\"allOf\":" LIST ",\"anyOf\":" LIST ","
                        "\"oneOf\":" LIST ",\"not\":" ANY "}}"},
    {BASE "meta/unevaluated", META("unevaluated") "\"properties\":{\"unevaluatedItems\":" ANY ","
                                                  "\"unevaluatedProperties\":" ANY "}}"},
    {BASE "meta/validation",
     META("validation") "\"properties\":{\"type\":{\"anyOf\":[" SIMPLE_TYPE ",{\"type\":\"array\","
                        "\"items\":" SIMPLE_TYPE ",\"minItems\":1,\"uniqueItems\":true}]},"
                        "\"const\":true,\"enum\":{\"type\":\"array\"},"
                        "\"multipleOf\":{\"type\":\"number\",\"exclusiveMinimum\":0},"
                        "\"maximum\":" NUMBER ",\"exclusiveMaximum\":" NUMBER ","
                        "\"minimum\":" NUMBER ",\"exclusiveMinimum\":" NUMBER ","
                        "\"maxLength\":" COUNT ",\"minLength\":" COUNT ",\"pattern\":" TEXT ","
                        "\"maxItems\":" COUNT ",\"minItems\":" COUNT ",\"uniqueItems\":" FLAG ","
                        "\"maxContains\":" COUNT ",\"minContains\":" COUNT ","
                        "\"maxProperties\":" COUNT ",\"minProperties\":" COUNT ","
                        "\"required\":" NAMES ",\"dependentRequired\":{\"type\":\"object\","
                        "\"additionalProperties\":" NAMES "}}}"},
    {BASE "meta/meta-data",
     META("meta-data") "\"properties\":{\"title\":" TEXT ",\"description\":" TEXT ","
                       "\"deprecated\":" FLAG ",\"readOnly\":" FLAG ",\"writeOnly\":" FLAG ","
                       "\"examples\":{\"type\":\"array\"}}}"},
    {BASE "meta/format-annotation",
     META("format-annotation") "\"properties\":{\"format\":" TEXT "}}"},
    {BASE "meta/format-assertion",
     META("format-assertion") "\"properties\":{\"format\":" TEXT "}}"},
    {BASE "meta/content",
     META("content") "\"properties\":{\"contentEncoding\":" TEXT ",\"contentMediaType\":" TEXT ","
                     "\"contentSchema\":" ANY "}}"},
};

const char *schema_meta_text(struct tidings_str uri)
{
    for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++) {
        if (str_eq(uri, tidings_str(documents[i].uri))) {
            return documents[i].text;
        }
    }
    return NULL;
}
