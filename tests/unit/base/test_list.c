/* SPDX-License-Identifier: MIT
 *
 * The intrusive list.
 */
#include "base/list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct item {
    char name;
    struct list link;
};

static struct item items[5] = {
    {.name = 'a'}, {.name = 'b'}, {.name = 'c'}, {.name = 'd'}, {.name = 'e'}};

static void assert_names(struct list *head, const char *want)
{
    char names[8] = {0};
    size_t n = 0;
    list_each (it, next, head) {
        assert_ptr_equal(it->next->prev, it);
        names[n++] = list_entry(it, struct item, link)->name;
    }
    assert_string_equal(names, want);
    assert_int_equal(list_empty(head), want[0] == '\0');
}

static void elements_stay_in_order(void **state)
{
    (void)state;
    struct list head;
    list_init(&head);
    assert_names(&head, "");
    list_append(&head, &items[1].link);
    list_append(&head, &items[2].link);
    list_prepend(&head, &items[0].link);
    assert_names(&head, "abc");
    list_remove(&items[1].link);
    list_remove(&items[1].link); /* a second call is fine */
    assert_names(&head, "ac");
    list_each (it, next, &head) {
        list_remove(it);
    }
    assert_names(&head, "");
}

static void splice_moves_everything_to_the_end(void **state)
{
    (void)state;
    struct list to, from;
    list_init(&to);
    list_init(&from);
    list_splice(&to, &from);
    assert_names(&to, "");
    list_append(&from, &items[2].link);
    list_append(&from, &items[3].link);
    list_splice(&to, &from);
    assert_names(&to, "cd");
    assert_names(&from, "");
    list_append(&from, &items[0].link);
    list_splice(&to, &from);
    assert_names(&to, "cda");
    list_splice(&to, &from);
    assert_names(&to, "cda");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_stay_in_order),
        cmocka_unit_test(splice_moves_everything_to_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
