/* SPDX-License-Identifier: MIT
 *
 * RFC 6570 as data: every published case of template expansion (the examples of the RFC, its
 * sections, and the wider collection kept with them), each once, as template, variables and result.
 */
#ifndef SUPPORT_TEMPLATE_CASES_H
#define SUPPORT_TEMPLATE_CASES_H

#include "formats/uri_template.h"

struct template_case {
    const char *text;
    const char *expansion; /* NULL: the template, or its expansion, is refused */
    const struct template_variable *variables;
    size_t variable_count;
};

extern const struct template_case template_cases[];
extern const size_t template_case_count;

#endif
