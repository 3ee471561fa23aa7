/* SPDX-License-Identifier: MIT
 *
 * A skill of examples/conformance (SEP-2640). A skill needs only resources with the scheme `skill`.
 * The library finds each SKILL.md, reads its front matter, and answers skills/list, skills/get and
 * resources/directory/read.
 */
#include "conformance.h"

static char skill[] = "---\n"
                      "name: greet-politely\n"
                      "description: Greets people in the way of their country\n"
                      "license: MIT\n"
                      "metadata:\n"
                      "  version: \"1.0\"\n"
                      "---\n\n"
                      "# Greet politely\n\n"
                      "Choose the greeting from [the list](references/GREETINGS.md).\n";
static char greetings[] = "# Greetings\n\n- de: Guten Tag\n- fr: Bonjour\n";

static void read_file(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)uri;
    tidings_read_answer(read, tidings_str(user));
}

int conformance_add_skills(struct tidings_server *server, struct tidings_error *err)
{
    struct tidings_resource main_file =
        tidings_resource("skill://greet-politely/SKILL.md", "greet-politely", "text/markdown");
    struct tidings_resource list = tidings_resource(
        "skill://greet-politely/references/GREETINGS.md", "GREETINGS.md", "text/markdown");
    main_file.description = tidings_str("Greets people in the way of their country");
    int rc = tidings_server_add_resource(server, &main_file, read_file, skill, err);
    return rc < 0 ? rc : tidings_server_add_resource(server, &list, read_file, greetings, err);
}
