/* SPDX-License-Identifier: MIT
 *
 * A live server in C++: a counter that is a resource, and a tool that sets it.
 *
 *     c++ -std=c++17 hello.cpp $(pkg-config --cflags --libs tidings) -o hello && ./hello
 */
#include <atomic>
#include <string>

#include <tidings/tidings.hpp>

int main(int argc, char **argv)
{
    std::atomic<std::int64_t> count{0};
    tidings::server server;
    server.resource("hello:///count", "count", "text/plain",
                    [&] { return "The count is " + std::to_string(count) + "\n"; });
    server.every(1000, [&] {
        count++;
        server.changed("hello:///count");
    });
    server.tool("set", "Sets the count",
                {{"to", TIDINGS_SCHEMA_INTEGER, "the new count", true}},
                [&](tidings::call &call) {
                    count = call.integer("to");
                    server.changed("hello:///count");
                    return std::string("done");
                });
    return server.main(argc, argv);
}
