// code: runs code in an interpreter of a microVM that keeps its state; shows or saves its results.
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/signal_set.hpp>
#include <unistd.h>

#include "base/printable.h"
#include "base/text.h"
#include "commands.h"
#include "exec_stream.h"
#include "rich_results.h"

namespace firebreak::cli {
namespace {

using namespace boost::asio::experimental::awaitable_operators;

struct CodeOptions {
  std::string id;
  std::string file;
  std::optional<std::string> code;
  std::string language = "python";
  std::string context;
  std::string save;  // directory; empty: results are shown
  std::optional<double> timeout;
};

Result<std::string> source_of(const CodeOptions& options) {
  if (options.code) return *options.code;
  return read_input(options.file.empty() ? "-" : options.file);
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Pictures are for eyes: a file or a program gets the short text.
Pictures our_pictures() {
  if (::isatty(STDOUT_FILENO) == 0) return Pictures::none;
  return pictures_of(variable("TERM"), variable("TERM_PROGRAM"),
                     !variable("KITTY_WINDOW_ID").empty());
}

Result<> show_result(const json::object& line, const CodeOptions& options) {
  const std::string kind = text_of(line, "kind");
  const std::string data = text_of(line, "data");
  if (is_plain(kind)) {
    std::cout << data << "\n" << std::flush;
    return {};
  }
  if (!options.save.empty()) {
    FB_TRY_ASSIGN(const std::string path, save_result(options.save, kind, data));
    print_error("saved " + path);
    return {};
  }
  if (const auto picture = picture_text(our_pictures(), kind, data))
    std::cout << *picture << std::flush;
  else
    print_line("[" + kind + ", " + std::to_string(data.size()) +
               " bytes; --save DIR writes it to a file]");
  return {};
}

// Results as a terminal can show them.
Result<> show_code_line(const json::object& line, const CodeOptions& options, int& status) {
  const std::string type = text_of(line, "type");
  if (type == "result") return show_result(line, options);
  if (type == "error") {
    status = 1;
    const json::value* trace = line.if_contains("traceback");
    if (trace != nullptr && trace->is_array() && !trace->as_array().empty()) {
      for (const json::value& part : trace->as_array())
        if (part.is_string()) {
          const std::string_view text = part.as_string();
          std::cerr << text << (text.ends_with('\n') ? "" : "\n");
        }
      std::cerr << std::flush;
    } else {
      std::cerr << printable(text_of(line, "name") + ": " + text_of(line, "message")) << "\n";
    }
    return {};
  }
  if (type == "started") {
    if (text_of(line, "state") == "restarted")
      print_error("the interpreter was restarted; its variables are gone");
    return {};
  }
  if (type == "done") {
    const std::string how = text_of(line, "status");
    if (how != "ok" && how != "error") {
      print_error(how);
      status = how == "timeout" ? kTimeoutStatus : 1;
    }
    return {};
  }
  return show_line(line, status);
}

// The context asked for, or the one of that language that is there, or a new one.
net::Task<Result<std::string>> choose_context(Client& client, const CodeOptions& options) {
  if (!options.context.empty()) co_return options.context;
  FB_CO_TRY_ASSIGN(const json::object known,
                   co_await client.call("GET", microvm_path(options.id, "/contexts")));
  if (const json::value* list = known.if_contains("contexts");
      list != nullptr && list->is_array()) {
    for (const json::value& item : list->as_array()) {
      if (item.is_object() && text_of(item.as_object(), "language") == options.language)
        co_return text_of(item.as_object(), "id");
    }
  }
  FB_CO_TRY_ASSIGN(const json::object made,
                   co_await client.call("POST", microvm_path(options.id, "/contexts"),
                                        json::object{{"language", options.language}}));
  co_return text_of(made, "id");
}

// Ctrl-C interrupts our run and no later one of the context; what it still prints arrives. The
// second ends us, as does one before the run has a name: then the server ends the run, because we
// are gone.
net::Task<Result<>> interrupt_on_signal(Client& client, std::string path, const std::string& run,
                                        int& status) {
  net::asio::signal_set signals(client.io(), SIGINT);
  const auto [ec, signal] = co_await signals.async_wait(net::kNoThrow);
  if (ec) co_return Result<>();
  signals.clear();
  status = kSignalStatus + signal;
  if (run.empty()) co_return Result<>();
  FB_CO_TRY(co_await client.call("POST", path + "/interrupt", json::object{{"run", run}}));
  net::Event never(client.io().get_executor());
  (void)co_await never.wait(far_away());
  co_return Result<>();
}

net::Task<Result<>> run_code(Client& client, const CodeOptions& options, int& status) {
  FB_CO_TRY_ASSIGN(const std::string source, source_of(options));
  FB_CO_TRY_ASSIGN(const std::string context, co_await choose_context(client, options));
  const std::string path = microvm_path(options.id, "/contexts/" + percent_encode(context, ""));
  json::object body{{"code", source}, {"stream", true}};
  if (options.timeout) body["timeoutMs"] = static_cast<std::uint64_t>(*options.timeout * 1000);
  std::string run;
  int interrupted = 0;
  auto lines = client.lines("POST", path + "/run", body, [&](json::object line) {
    if (text_of(line, "type") == "started") run = text_of(line, "run");
    return show_code_line(line, options, status);
  });
  auto either = co_await (std::move(lines) || interrupt_on_signal(client, path, run, interrupted));
  if (interrupted != 0) status = interrupted;
  co_return either.index() == 0 ? std::get<0>(either) : std::get<1>(either);
}

}  // namespace

void add_code_command(Command& root, Common& common) {
  auto options = std::make_shared<CodeOptions>();
  Command& code = root.add("code", "Run code in an interpreter of a microVM that keeps its state");
  code.group(kInsideGroup);
  code.about(
      "Variables stay for the next call. The value of the last expression is printed. The exit\n"
      "status is 1 when the code raised an error. Ctrl-C interrupts the code, twice ends the "
      "command.");
  add_microvm_word(code, options->id);
  code.word("FILE", options->file, "File with the code; - is standard input")
      .kind(ValueKind::file)
      .fallback("standard input");
  code.option("-c,--code", options->code, "TEXT", "The code itself")
      .excludes("FILE", "give the code once: with -c, in a file, or on standard input");
  code.option("-l,--language", options->language, "LANGUAGE",
              "The interpreter, if the image has it")
      .one_of({"python", "bash", "node"});
  code.option("--context", options->context, "ID", "Which interpreter of the microVM")
      .fallback("the first of the language, else a new one");
  code.option("--timeout", options->timeout, "SECONDS",
              "Interrupt the code after so long; fractions are allowed")
      .range(0.001, 86400, "leave it out for no time limit")
      .fallback("none");
  code.option("--save", options->save, "DIR",
              "Write pictures, HTML and the like to new files there, and name them")
      .kind(ValueKind::directory);
  code.example("firebreak code ID -c 'x = 41'", "then: firebreak code ID -c 'x + 1'");
  code.example("firebreak code ID plot.py --save .", "figures become result-1.png and so on");
  run_with_client(code, common, [options](Client& client, int& status) {
    return run_code(client, *options, status);
  });
}

}  // namespace firebreak::cli
