/* SPDX-License-Identifier: MIT
 *
 * The C++ header from both sides: a server and a client of it in one program.
 */
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <string>
#include <thread>

#include <tidings/tidings.hpp>

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::fprintf(stderr, "wrapper.cpp:%d: expected %s\n", __LINE__, #condition);           \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (false)

static std::string field(const std::string &json, const char *pointer)
{
    char *text = tidings_json_string(tidings_str(json.c_str()), pointer);
    const std::string found = text ? text : "(none)";
    tidings_free(text);
    return found;
}

template <typename F> static int code_of(F f)
{
    try {
        f();
    } catch (const tidings::error &e) {
        EXPECT(e.what()[0] != '\0');
        return e.code();
    }
    return 0;
}

int main()
{
    std::atomic<int> count{0}, heard{0}, ended{0};
    tidings::server server;
    server.set("http", "127.0.0.1:0");
    server.set("publish", "app:///");
    EXPECT(code_of([&] { server.set("no-such", "1"); }) < 0);
    server.resource("hello:///count", "count", "text/plain",
                    [&] { return std::to_string(count); });
    server.resource("hello:///bad", "bad", "text/plain",
                    []() -> std::string { throw tidings::error(TIDINGS_E_GONE, "it went away"); });
    server.resource("hello:///broken", "broken", "text/plain",
                    []() -> std::string { throw std::runtime_error("it broke"); });
    server.resource_template("item:///{id}", "items", "text/plain",
                             [](std::string_view uri) { return "this is " + std::string(uri); });
    server.resource_template("weather:///{city}/{day}", "weather", "text/plain",
                             [](std::string_view uri, const tidings::variables &in) {
                                 return std::string(in["day"]) + " in " + std::string(in["city"]) +
                                        std::string(in["none"]) + " of " + std::string(uri);
                             });
    EXPECT(code_of([&] {
               server.resource("hello:///count", "again", "text/plain", [] { return ""; });
           }) == TIDINGS_E_EXISTS);
    server.tool("set", "Sets the count",
                {{"to", TIDINGS_SCHEMA_INTEGER, "the new count", true}},
                [&](tidings::call &call) {
                    count = static_cast<int>(call.integer("to"));
                    server.changed("hello:///count", R"({"by":"set"})");
                    return std::string("done");
                });
    server.tool("ask", "Asks", {}, [](tidings::call &call) -> std::string {
        struct tidings_error err = {};
        const struct tidings_str said = tidings_call_answer(call.get(), "who");
        if (said.len == 0) {
            EXPECT(tidings_call_ask(call.get(), "who", "elicitation/create",
                                    tidings_str(R"({"message":"who?","requestedSchema":{"type":"object",)"
                                                R"("properties":{"name":{"type":"string"}}}})"),
                                    &err) == 0);
        }
        return std::string(tidings::view(said));
    });
    server.tool("fail", "Fails", {}, [](tidings::call &) -> std::string {
        throw std::runtime_error("on purpose");
    });
    server.tool("pick", "Picks", {{"what", TIDINGS_SCHEMA_STRING, nullptr, true, {"a", "b"}}, {"why"}},
                [](tidings::call &call) { return std::string(call.string("what")); });
    server.prompt("greet", "Greets", {{"whom", nullptr, nullptr, true}}, [](tidings::call &call) {
        return "Greet " + std::string(call.string("whom"));
    });
    struct tidings_server_info info = {};
    info.name = tidings_str("wrapper");
    server.set_info(info);
    EXPECT(code_of([&] { server.mount(*tidings_provider_find("file"), "file:///x/", "{}"); }) < 0);
    std::promise<std::string> address;
    server.on_ready([&](std::string_view url) { address.set_value(std::string(url)); });
    tidings::subscription inside = server.subscribe(
        "hello:///count", [&](const tidings_update &) { heard++; }, R"({"windowMs":0})",
        [&](const tidings_state_event &e) { ended += e.state == TIDINGS_STATE_ENDED; });
    EXPECT(inside.uri() == "hello:///count");
    EXPECT(code_of([&] { (void)server.subscribe("", [](const tidings_update &) {}); }) < 0);
    std::thread runs([&] { server.run(); });

    {
        tidings::client client(address.get_future().get());
        bool connected = false;
        tidings::questions questions;
        questions.form = [](struct tidings_question *q) {
            EXPECT(tidings_question_accept(q, tidings_str(R"({"name":"ann"})"), nullptr) == 0);
        };
        client.on_question(std::move(questions));
        client.on_state(
            [&](const tidings_state_event &e) { connected |= e.state == TIDINGS_STATE_CONNECTED; });
        const std::string counted = "hello:///count";
        EXPECT(field(client.read(counted), "/contents/0/text") == "0");
        EXPECT(field(client.read(std::string_view(counted)), "/contents/0/text") == "0");
        EXPECT(field(client.prompt("greet", R"({"whom":"ann"})"), "/messages/0/content/text") ==
               "Greet ann");
        EXPECT(field(client.call_tool("ask"), "/content/0/text") ==
               R"({"action":"accept","content":{"name":"ann"}})");
        EXPECT(client.call_tool("pick", R"({"what":"c"})").find("none of 'a', 'b'") !=
               std::string::npos);
        EXPECT(field(client.read("item:///7"), "/contents/0/text") == "this is item:///7");
        EXPECT(field(client.read("weather:///oslo/today"), "/contents/0/text") ==
               "today in oslo of weather:///oslo/today");
        EXPECT(code_of([&] { client.read("hello:///bad"); }) < 0);
        EXPECT(code_of([&] { client.read("hello:///broken"); }) == TIDINGS_E_INTERNAL);
        EXPECT(code_of([&] { client.read("hello:///nothing"); }) == TIDINGS_E_NOTFOUND);
        const std::string failed = client.call_tool("fail");
        EXPECT(failed.find("\"isError\":true") != std::string::npos);
        EXPECT(failed.find("on purpose") != std::string::npos);
        EXPECT(client.request("tools/list").find("the new count") != std::string::npos);
        int tools = 0;
        client.list(TIDINGS_LISTING_TOOLS, [&](std::string_view) { tools++; });
        EXPECT(tools == 4);
        try {
            client.list(TIDINGS_LISTING_TOOLS, [](std::string_view) { throw 42; });
            EXPECT(false);
        } catch (int thrown) {
            EXPECT(thrown == 42);
        }

        bool watching = false;
        std::string metadata;
        tidings::subscription first = client.subscribe(
            "hello:///count",
            [&](const tidings_update &u) { metadata = tidings::view(u.metadata); }, nullptr,
            [&](const tidings_state_event &e) { watching |= e.state == TIDINGS_STATE_WATCHING; });
        tidings::subscription moved = std::move(first);
        EXPECT(!first.get() && moved.get());
        while (!watching) {
            client.step();
        }
        EXPECT(connected);
        EXPECT(field(client.call_tool("set", R"({"to":5})"), "/content/0/text") == "done");
        while (metadata.empty()) {
            client.step();
        }
        EXPECT(metadata.find("\"by\":\"set\"") != std::string::npos);
        EXPECT(field(client.read("hello:///count"), "/contents/0/text") == "5");
        moved.end();
        EXPECT(server.publish("app:///note", "hello") && !server.publish("app:///note", "hi"));
        EXPECT(field(client.read("app:///note"), "/contents/0/text") == "hi");
    }
    inside.end();
    while (ended == 0) {
        std::this_thread::yield();
    }
    EXPECT(heard == 1);
    /* A thread that goes on reporting while the server ends must not be the end of the program. */
    std::atomic<bool> reported{false};
    std::thread late([&] {
        while (server.changed("hello:///count")) {
            std::this_thread::yield();
        }
        reported = true;
    });
    server.stop();
    runs.join();
    late.join();
    EXPECT(reported && !server.changed("hello:///count"));
    {
        tidings::server stepped;
        stepped.set(std::string("http"), std::string_view("127.0.0.1:0"));
        stepped.start();
        EXPECT(stepped.fd() >= 0 && stepped.turn() && stepped.timeout_ms() >= -1);
        stepped.stop();
        while (stepped.turn()) {
        }
    }
    std::puts(tidings_version());
    return 0;
}
