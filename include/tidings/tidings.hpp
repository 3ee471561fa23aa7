/* SPDX-License-Identifier: MIT
 *
 * The C++17 interface: objects with destructors, lambdas instead of a function and a pointer,
 * exceptions instead of codes. It is header-only and calls the C functions, whose headers document
 * threads, lifetimes and limits. A program can mix both: `get()` returns the C handle.
 *
 *     tidings::server server;
 *     server.resource("hello:///count", "count", "text/plain", [&] { return std::to_string(n); });
 *     server.every(1000, [&] { n++; server.changed("hello:///count"); });
 *     return server.main(argc, argv);
 *
 *     tidings::client client("http://127.0.0.1:7777/mcp");
 *     auto s = client.subscribe("file:///docs/", [](const tidings_update &u) { … });
 *     client.run();
 *
 * If a lambda that answers a client (a read, a tool) throws, the client receives the error. Other
 * lambdas must not throw: an exception would have to cross the C library, and terminates the
 * program.
 *
 * Since 0.1.
 */
#ifndef TIDINGS_HPP
#define TIDINGS_HPP

#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <tidings/tidings.h>

namespace tidings
{

/* An error: a TIDINGS_E_ code, and the message in what(). */
class error : public std::runtime_error
{
public:
    error(int code, const char *text) : std::runtime_error(text), code_(code) {}
    explicit error(const struct tidings_error &err) : error(err.code, err.text) {}
    int code() const noexcept { return code_; }

private:
    int code_;
};

inline std::string_view view(struct tidings_str s) noexcept
{
    return s.len > 0 ? std::string_view(s.ptr, s.len) : std::string_view();
}
inline struct tidings_str str(std::string_view s) noexcept
{
    return tidings_strn(s.data() ? s.data() : "", s.size());
}

/* A string parameter: a literal, a string or a view. NULL is the empty string. */
class text
{
public:
    text() noexcept = default;
    text(const char *s) noexcept : view_(s ? s : "") {}
    text(std::string_view s) noexcept : view_(s) {}
    text(const std::string &s) noexcept : view_(s) {}
    std::string_view view() const noexcept { return view_; }
    struct tidings_str str() const noexcept { return tidings::str(view_); }
    std::string string() const { return std::string(view_); } /* NUL-terminated */

private:
    std::string_view view_;
};

/* An argument of a tool: {"days", TIDINGS_SCHEMA_INTEGER}. The strings are borrowed until the tool
 * is registered. */
struct field {
    const char *name = nullptr;
    enum tidings_schema_type type = TIDINGS_SCHEMA_STRING;
    const char *description = nullptr;
    bool is_required = false;
    std::vector<const char *> choices = {};
    const char *rules = nullptr; /* a JSON object with other JSON Schema keywords */
};

namespace detail
{

/* Receives the error of a C function as its last parameter, and throws it. */
class checked
{
public:
    struct tidings_error err = {TIDINGS_E_INTERNAL, "it failed"};
    int operator()(int rc) const
    {
        if (rc < 0) {
            throw error(err);
        }
        return rc;
    }
    template <typename T> T *operator()(T *made) const
    {
        if (!made) {
            throw error(err);
        }
        return made;
    }
};

/* Converts the current exception to a C error. Call it in a catch block. */
inline struct tidings_error caught() noexcept
{
    struct tidings_error err = {TIDINGS_E_INTERNAL, "unknown exception"};
    try {
        throw;
    } catch (const error &e) {
        tidings_fail(&err, e.code(), "%s", e.what());
    } catch (const std::bad_alloc &) {
        tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory");
    } catch (const std::exception &e) {
        tidings_fail(&err, TIDINGS_E_INTERNAL, "%s", e.what());
    } catch (...) {
    }
    return err;
}

/* Converts JSON text of the library to a string, and releases it. */
inline std::string taken(char *text)
{
    const std::unique_ptr<char, void (*)(void *)> owner(text, tidings_free);
    return std::string(text);
}

/* Returns NULL, which means "none" to C functions, for an empty string. */
inline const char *or_null(const std::string &s) noexcept
{
    return s.empty() ? nullptr : s.c_str();
}

using update_fn = std::function<void(const struct tidings_update &)>;
using state_fn = std::function<void(const struct tidings_state_event &)>;

/* The lambdas of a subscription. They live until the library's last call. */
struct listener {
    update_fn on_update;
    state_fn on_state;
    std::function<void()> ended; /* set for a server: releases this object */

    static void update(void *user, const struct tidings_update *u) noexcept
    {
        static_cast<listener *>(user)->on_update(*u);
    }
    static void state(void *user, const struct tidings_state_event *e) noexcept
    {
        listener *me = static_cast<listener *>(user);
        if (me->on_state) {
            me->on_state(*e);
        }
        if (e->state == TIDINGS_STATE_ENDED && me->ended) {
            const std::function<void()> last = std::move(me->ended);
            last(); /* frees *me */
        }
    }
};

inline struct tidings_subscribe_options options_of(listener *l, const char *options) noexcept
{
    struct tidings_subscribe_options on = {};
    on.fn = listener::update;
    on.on_state = listener::state;
    on.user = l;
    on.options = options;
    return on;
}

} /* namespace detail */

/* The arguments that a tool accepts: JSON Schema text, fields, or nothing (any arguments). */
class schema
{
public:
    schema() = default;
    schema(const char *json) : json_(json ? json : "") {}
    schema(std::string_view json) : json_(json) {}
    schema(std::string json) noexcept : json_(std::move(json)) {}
    schema(std::initializer_list<field> fields) : schema(std::vector<field>(fields)) {}
    schema(std::vector<field> fields)
    {
        std::vector<struct tidings_schema_field> rows;
        for (field &f : fields) {
            const bool has_choices = !f.choices.empty();
            f.choices.push_back(nullptr);
            rows.push_back({f.name, f.type, f.description, f.is_required,
                            has_choices ? f.choices.data() : nullptr, f.rules});
        }
        detail::checked check;
        json_ = detail::taken(check(tidings_schema_object(rows.data(), rows.size(), &check.err)));
    }
    const std::string &json() const noexcept { return json_; }

private:
    std::string json_;
};

/* A subscription, which ends with this object. It must not outlive its server or client. */
class subscription
{
public:
    subscription() noexcept = default;
    subscription(subscription &&other) noexcept
        : handle_(std::exchange(other.handle_, nullptr)), listener_(std::move(other.listener_))
    {
    }
    subscription &operator=(subscription &&other) noexcept
    {
        if (this != &other) {
            end();
            handle_ = std::exchange(other.handle_, nullptr);
            listener_ = std::move(other.listener_);
        }
        return *this;
    }
    ~subscription() { end(); }

    /* End the subscription. Do not call this in a lambda of a client's own subscription, because it
     * destroys the lambda. */
    void end() noexcept
    {
        tidings_subscription_end(std::exchange(handle_, nullptr));
        listener_.reset();
    }
    std::string uri() const { return handle_ ? tidings_subscription_uri(handle_) : ""; }
    struct tidings_subscription *get() const noexcept { return handle_; }

private:
    friend class server;
    friend class client;
    subscription(struct tidings_subscription *handle, std::unique_ptr<detail::listener> l) noexcept
        : handle_(handle), listener_(std::move(l))
    {
    }
    struct tidings_subscription *handle_ = nullptr;
    std::unique_ptr<detail::listener> listener_; /* only for a client */
};

/* A tool call, valid while its lambda runs. */
class call
{
public:
    explicit call(struct tidings_call *c) noexcept : call_(c) {}
    bool has(const char *name) const noexcept { return tidings_call_has(call_, name); }
    std::string_view string(const char *name) const noexcept
    {
        return view(tidings_call_string(call_, name));
    }
    double number(const char *name, double fallback = 0) const noexcept
    {
        return tidings_call_number(call_, name, fallback);
    }
    std::int64_t integer(const char *name, std::int64_t fallback = 0) const noexcept
    {
        return tidings_call_integer(call_, name, fallback);
    }
    bool boolean(const char *name, bool fallback = false) const noexcept
    {
        return tidings_call_boolean(call_, name, fallback);
    }
    std::string_view principal() const noexcept { return view(tidings_call_principal(call_)); }
    void structured(std::string_view json)
    {
        detail::checked check;
        check(tidings_call_structured(call_, str(json), &check.err));
    }
    struct tidings_call *get() const noexcept { return call_; }

private:
    struct tidings_call *call_;
};

/* The template variables of the requested URI, valid while the lambda runs. */
class variables
{
public:
    explicit variables(const struct tidings_read *read) noexcept : read_(read) {}
    /* Returns the value of a variable, or an empty view if there is none. */
    std::string_view operator[](const char *name) const noexcept
    {
        return view(tidings_read_variable(read_, name));
    }

private:
    const struct tidings_read *read_;
};

/* A server. It owns its lambdas. */
class server
{
public:
    using read_fn = std::function<std::string()>;
    using read_uri_fn = std::function<std::string(std::string_view uri)>;
    using read_template_fn = std::function<std::string(std::string_view uri, const variables &)>;
    using tool_fn = std::function<std::string(call &)>;

    server()
    {
        detail::checked check;
        server_.reset(check(tidings_server_create(&check.err)));
    }
    server(const server &) = delete;
    server &operator=(const server &) = delete;
    struct tidings_server *get() const noexcept { return server_.get(); }

    /* Set a setting, like a command-line option: set("http", "127.0.0.1:0"). */
    void set(text name, text value)
    {
        detail::checked check;
        check(tidings_server_set(get(), name.string().c_str(), value.string().c_str(), &check.err));
    }
    /* Set the name and version that clients receive. Call this before the server runs. */
    void set_info(const struct tidings_server_info &info)
    {
        detail::checked check;
        check(tidings_server_set_info(get(), &info, &check.err));
    }
    /* Mount a provider at a prefix that ends in '/'. Call this before the server runs; `ops` must
     * live as long as the server. */
    void mount(const struct tidings_provider_ops &ops, text prefix, text config = {})
    {
        detail::checked check;
        check(tidings_server_mount(get(), &ops, prefix.str(), config.str(), &check.err));
    }

    /* Add a resource. The lambda returns its content for each read. It runs on threads of the
     * server, several at once, and must not block. */
    void resource(text uri, text name, text mime_type, read_fn fn)
    {
        add(tidings_server_add_resource, uri, name, mime_type,
            [read = std::move(fn)](std::string_view, const variables &) { return read(); });
    }
    /* Add all resources of a template. The lambda receives the URI, or the URI and the variables:
     *     [](std::string_view uri, const tidings::variables &in) { return report(in["city"]); } */
    void resource_template(text uri, text name, text mime_type, read_template_fn fn)
    {
        add(tidings_server_add_template, uri, name, mime_type, std::move(fn));
    }
    void resource_template(text uri, text name, text mime_type, read_uri_fn fn)
    {
        add(tidings_server_add_template, uri, name, mime_type,
            [read = std::move(fn)](std::string_view at, const variables &) { return read(at); });
    }

    /* Add a tool. The lambda returns its text; an empty string adds none. `arguments` are fields
     * ({{"to", TIDINGS_SCHEMA_INTEGER, "the new count", true}}), JSON Schema text, or {} (any). */
    void tool(text name, text description, const schema &arguments, tool_fn fn)
    {
        struct tidings_tool about = {};
        about.name = name.str();
        about.description = description.str();
        about.input_schema = str(arguments.json());
        tool(about, std::move(fn));
    }
    void tool(const struct tidings_tool &about, tool_fn fn)
    {
        detail::checked check;
        check(tidings_server_add_tool(get(), &about, on_call, keep(tools_, std::move(fn)),
                                      &check.err));
    }
    /* Add a prompt. The lambda returns one message of the user. `arguments` are strings. */
    void prompt(text name, text description, const std::vector<struct tidings_argument> &arguments,
                tool_fn fn)
    {
        struct tidings_prompt about = {};
        about.name = name.str();
        about.description = description.str();
        about.arguments = arguments.data();
        about.argument_count = arguments.size();
        detail::checked check;
        check(tidings_server_add_prompt(get(), &about, on_call, keep(tools_, std::move(fn)),
                                        &check.err));
    }

    /* Announce a change; `metadata` is a JSON object or empty. Thread-safe. Returns false if the
     * server has ended, or if its queue is full and all subscribers will read again. The caller
     * need not do anything in either case. */
    bool changed(std::string_view uri, std::string_view metadata = {})
    {
        detail::checked check;
        const int rc = tidings_changed(get(), str(uri), str(metadata), &check.err);
        return rc != TIDINGS_E_BUSY && rc != TIDINGS_E_CLOSED && check(rc) >= 0;
    }
    /* Publish content, which the server keeps. Returns true if the resource is new. Thread-safe. */
    bool publish(text uri, std::string_view content, text mime_type = {})
    {
        detail::checked check;
        const struct tidings_resource about = describe(uri, {}, mime_type);
        return check(tidings_server_publish(get(), &about, str(content), &check.err)) == 1;
    }
    /* Call a function every `ms` milliseconds on the thread that runs the server. Call this before
     * the server runs. */
    void every(std::uint64_t ms, std::function<void()> fn)
    {
        detail::checked check;
        check(tidings_server_every(get(), ms, on_timer, keep(timers_, std::move(fn)), &check.err));
    }
    /* Set a function that receives the first address when clients can connect. Call this before the
     * server runs. */
    void on_ready(std::function<void(std::string_view url)> fn)
    {
        ready_ = std::move(fn);
        tidings_server_on_ready(get(), on_ready_call, this);
    }

    /* Subscribe the program itself to changes. The lambdas run on a thread of the server. `options`
     * is a JSON object or empty. */
    [[nodiscard]] subscription subscribe(text uri, detail::update_fn fn, text options = {},
                                         detail::state_fn on_state = {})
    {
        auto made = std::make_unique<detail::listener>();
        detail::listener *me = made.get();
        made->on_update = std::move(fn);
        made->on_state = std::move(on_state);
        made->ended = [this, me] { forget(me); };
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            listeners_.emplace(me, std::move(made));
        }
        detail::checked check;
        const std::string json = options.string();
        const struct tidings_subscribe_options on = detail::options_of(me, detail::or_null(json));
        struct tidings_subscription *handle =
            tidings_server_subscribe(get(), uri.str(), &on, &check.err);
        if (!handle) {
            forget(me);
        }
        return subscription(check(handle), nullptr);
    }

    /* Run until stop(), on this thread and threads of the server. */
    void run()
    {
        detail::checked check;
        check(tidings_server_run(get(), &check.err));
    }
    /* Alternatively, run inside the program's event loop: call start(), then turn() while it
     * returns true, whenever fd() is readable or timeout_ms() have passed. */
    void start()
    {
        detail::checked check;
        check(tidings_server_start(get(), &check.err));
    }
    bool turn()
    {
        detail::checked check;
        return check(tidings_server_turn(get(), &check.err)) > 0;
    }
    int fd() const noexcept { return tidings_server_fd(get()); }
    int timeout_ms() const noexcept { return tidings_server_timeout_ms(get()); }
    /* Run for the whole life of a small program: options, signals, messages. Returns the exit
     * status. */
    int main(int argc, char **argv) { return tidings_server_main(get(), argc, argv); }
    /* Stop the server. Thread-safe and async-signal-safe. */
    void stop() noexcept { tidings_server_stop(get()); }

private:
    template <typename T> using kept = std::vector<std::unique_ptr<T>>;

    /* Stores a lambda. Its address stays the same when the vector grows. */
    template <typename T> T *keep(kept<T> &all, T fn)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        all.push_back(std::make_unique<T>(std::move(fn)));
        return all.back().get();
    }
    static struct tidings_resource describe(text uri, text name, text mime_type) noexcept
    {
        struct tidings_resource about = {};
        about.uri = uri.str();
        about.name = name.str();
        about.mime_type = mime_type.str();
        return about;
    }
    template <typename F>
    void add(F register_it, text uri, text name, text mime_type, read_template_fn fn)
    {
        detail::checked check;
        const struct tidings_resource about = describe(uri, name, mime_type);
        check(register_it(get(), &about, on_read, keep(reads_, std::move(fn)), &check.err));
    }
    static void on_read(void *user, struct tidings_read *read, struct tidings_str uri) noexcept
    {
        try {
            const std::string text =
                (*static_cast<read_template_fn *>(user))(view(uri), variables(read));
            struct tidings_error err;
            const int rc = tidings_read_text(read, nullptr, str(text), &err);
            tidings_read_done(read, rc, &err);
        } catch (...) {
            const struct tidings_error err = detail::caught();
            tidings_read_done(read, err.code, &err);
        }
    }
    static void on_call(void *user, struct tidings_call *c) noexcept
    {
        try {
            call made(c);
            const std::string text = (*static_cast<tool_fn *>(user))(made);
            struct tidings_error err;
            const int rc = text.empty() ? 0 : tidings_call_text(c, str(text), &err);
            tidings_call_done(c, rc, &err);
        } catch (...) {
            const struct tidings_error err = detail::caught();
            tidings_call_done(c, err.code, &err);
        }
    }
    static void on_timer(void *user) noexcept { (*static_cast<std::function<void()> *>(user))(); }
    static void on_ready_call(void *user, const char *url) noexcept
    {
        static_cast<server *>(user)->ready_(url);
    }

    void forget(detail::listener *l)
    {
        std::unique_ptr<detail::listener> gone; /* destroyed after the lock */
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto at = listeners_.find(l);
        gone = std::move(at->second);
        listeners_.erase(at);
    }

    std::mutex mutex_; /* protects the lambdas */
    std::unordered_map<detail::listener *, std::unique_ptr<detail::listener>> listeners_;
    kept<read_template_fn> reads_;
    kept<tool_fn> tools_;
    kept<std::function<void()>> timers_;
    std::function<void(std::string_view)> ready_;
    struct destroy {
        void operator()(struct tidings_server *s) const noexcept { tidings_server_destroy(s); }
    };
    std::unique_ptr<struct tidings_server, destroy> server_; /* destroyed first, because it calls the others */
};

/* Functions that answer questions of a server (<tidings/question.h>). They run inside the client
 * function that waits. The server cannot ask questions whose function is empty. */
struct questions {
    using fn = std::function<void(struct tidings_question *)>;
    fn form{}, url{}, sampling{}, roots{}, withdrawn{};
    bool sampling_tools = false;
};

namespace detail
{
template <questions::fn questions::*Member>
inline tidings_question_fn asked(const questions &q) noexcept
{
    return q.*Member ? [](void *user, struct tidings_question *question) noexcept {
        (static_cast<questions *>(user)->*Member)(question);
    }
                     : static_cast<tidings_question_fn>(nullptr);
}
} // namespace detail

/* A client of any MCP server. Only one thread at a time may use it. */
class client
{
public:
    using item_fn = std::function<void(std::string_view json)>;

    explicit client(text address, const struct tidings_client_options *options = nullptr)
    {
        detail::checked check;
        client_.reset(check(tidings_client_create(address.string().c_str(), options, &check.err)));
    }
    /* Create a client of a server that it launches: {"tidings", "serve", "--stdio", "."}. */
    explicit client(const std::vector<std::string> &command,
                    const struct tidings_client_options *options = nullptr)
    {
        detail::checked check;
        std::vector<const char *> argv;
        for (const std::string &word : command) {
            argv.push_back(word.c_str());
        }
        argv.push_back(nullptr);
        client_.reset(check(tidings_client_launch(argv.data(), options, &check.err)));
    }
    struct tidings_client *get() const noexcept { return client_.get(); }

    /* Send a request and return the answer as JSON text. */
    std::string request(text method, text params = {})
    {
        detail::checked check;
        const std::string json = params.string();
        return detail::taken(check(tidings_client_request(get(), method.string().c_str(),
                                                          detail::or_null(json), &check.err)));
    }
    std::string read(text uri)
    {
        detail::checked check;
        return detail::taken(check(tidings_client_read(get(), uri.string().c_str(), &check.err)));
    }
    std::string call_tool(text name, text arguments = {})
    {
        detail::checked check;
        const std::string json = arguments.string();
        return detail::taken(check(tidings_client_call(get(), name.string().c_str(),
                                                       detail::or_null(json), nullptr, nullptr,
                                                       &check.err)));
    }
    std::string prompt(text name, text arguments = {})
    {
        detail::checked check;
        const std::string json = arguments.string();
        return detail::taken(check(tidings_client_prompt(get(), name.string().c_str(),
                                                         detail::or_null(json), &check.err)));
    }
    /* Get the entry of an Agent Skill, or the bytes of one of its files, verified against the
     * entry. */
    std::string skill(text uri)
    {
        detail::checked check;
        return detail::taken(check(tidings_client_skill(get(), uri.string().c_str(), &check.err)));
    }
    std::string skill_read(text entry, text uri)
    {
        detail::checked check;
        size_t len = 0;
        const std::unique_ptr<char, void (*)(void *)> bytes(
            check(tidings_client_skill_read(get(), entry.string().c_str(), uri.string().c_str(),
                                            &len, &check.err)),
            tidings_free);
        return std::string(bytes.get(), len);
    }
    /* Call the lambda with each element of a list, as JSON text. If it throws, the listing ends and
     * the caller receives the exception. */
    void list(enum tidings_listing which, const item_fn &fn)
    {
        struct walk {
            const item_fn *fn;
            std::exception_ptr thrown;
        } w = {&fn, nullptr};
        detail::checked check;
        const int rc = tidings_client_list(
            get(), which,
            [](void *user, struct tidings_str item) noexcept {
                walk *me = static_cast<walk *>(user);
                try {
                    (*me->fn)(view(item));
                } catch (...) {
                    me->thrown = std::current_exception();
                    return 1;
                }
                return 0;
            },
            &w, &check.err);
        if (w.thrown) {
            std::rethrow_exception(w.thrown);
        }
        check(rc);
    }

    /* Set a function for states of the connection and the subscriptions. It runs inside run() and
     * step(). */
    void on_state(detail::state_fn fn)
    {
        state_ = std::make_unique<detail::state_fn>(std::move(fn));
        tidings_client_on_state(
            get(),
            [](void *user, const struct tidings_state_event *e) noexcept {
                (*static_cast<detail::state_fn *>(user))(*e);
            },
            state_.get());
    }
    /* Set the functions that answer the server's questions. Call this before the client connects.
     */
    void on_question(questions q)
    {
        auto kept = std::make_unique<questions>(std::move(q));
        struct tidings_question_handlers on = {};
        on.on_form = detail::asked<&questions::form>(*kept);
        on.on_url = detail::asked<&questions::url>(*kept);
        on.on_sampling = detail::asked<&questions::sampling>(*kept);
        on.on_roots = detail::asked<&questions::roots>(*kept);
        on.on_withdrawn = detail::asked<&questions::withdrawn>(*kept);
        on.sampling_tools = kept->sampling_tools;
        on.user = kept.get();
        detail::checked check;
        check(tidings_client_on_question(get(), &on, &check.err));
        questions_ = std::move(kept);
    }
    /* Subscribe to changes. The lambdas run inside run() and step(). `options` is a JSON object or
     * empty. */
    [[nodiscard]] subscription subscribe(text uri, detail::update_fn fn, text options = {},
                                         detail::state_fn on_state = {})
    {
        auto made = std::make_unique<detail::listener>();
        made->on_update = std::move(fn);
        made->on_state = std::move(on_state);
        detail::checked check;
        const std::string json = options.string();
        const struct tidings_subscribe_options on =
            detail::options_of(made.get(), detail::or_null(json));
        struct tidings_subscription *handle =
            check(tidings_client_subscribe(get(), uri.string().c_str(), &on, &check.err));
        return subscription(handle, std::move(made));
    }

    /* Run until stop(). */
    void run()
    {
        detail::checked check;
        check(tidings_client_run(get(), &check.err));
    }
    /* Wait until an event happens, at most `timeout_ms` (negative: no limit), and process it.
     * Returns false after stop(). */
    bool step(int timeout_ms = -1)
    {
        detail::checked check;
        return check(tidings_client_step(get(), timeout_ms, &check.err)) > 0;
    }
    /* Stop the client. Thread-safe and async-signal-safe. */
    void stop() noexcept { tidings_client_stop(get()); }

private:
    struct destroy {
        void operator()(struct tidings_client *c) const noexcept { tidings_client_destroy(c); }
    };
    std::unique_ptr<detail::state_fn> state_; /* has a stable address when this object moves */
    std::unique_ptr<questions> questions_;
    std::unique_ptr<struct tidings_client, destroy> client_;
};

} /* namespace tidings */

#endif
