// image build: a directory goes up, the log comes down.
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include <unistd.h>

#include "base/sys.h"
#include "base/text.h"
#include "base/words.h"
#include "commands.h"
#include "guest/tenant_tar.h"
#include "wire/crypto.h"

namespace firebreak::cli {
namespace {

struct BuildOptions {
  std::string tag;  // the name, when the only word is the source
  std::string name;
  std::string source;
  std::string file;
  std::string target;
  std::string ready;
  std::string egress;
  std::string build_egress;
  std::string hooks;
  std::vector<std::string> args;
  std::vector<std::string> env;
  std::vector<std::string> secrets;
  std::vector<std::string> preload;
  std::string memory = "512";
  bool prune = false;
  bool no_cache = false;
  bool python = false;
};

std::string build_path(const BuildOptions& options) {
  std::string path =
      "/v1/images/" + percent_encode(options.name, "") + "/builds?memoryMib=" + options.memory;
  const auto add = [&path](const char* name, const std::string& value) {
    if (!value.empty()) path += std::string("&") + name + "=" + percent_encode(value, "");
  };
  add("file", options.file);
  add("target", options.target);
  add("ready", options.ready);
  add("egress", options.egress);
  add("buildEgress", options.build_egress);
  add("hooks", options.hooks);
  for (const std::string& arg : options.args) add("arg", arg);
  for (const std::string& env : options.env) add("env", env);
  for (const std::string& modules : options.preload) add("preload", modules);
  if (options.prune) path += "&pruneVersions=1";
  if (options.no_cache) path += "&noCache=1";
  if (options.python) path += "&pythonContext=1";
  return path;
}

// "id=NAME,src=FILE" or "id=NAME,env=VARIABLE", as a header.
Result<wire::HeaderField> read_secret(const std::string& text) {
  std::map<std::string, std::string, std::less<>> parts;
  for (const std::string_view part : split(text, ',')) {
    auto pair = split_pair(part);
    if (!pair) return fail(Code::invalid, "--secret is id=NAME,src=FILE");
    parts[pair->name] = std::move(pair->value);
  }
  std::string value;
  if (const auto file = parts.find("src"); file != parts.end()) {
    FB_TRY_ASSIGN(value, sys::read_file(file->second, 64 << 10));
  } else if (const auto env = parts.find("env"); env != parts.end()) {
    const char* found = std::getenv(env->second.c_str());
    if (found == nullptr)
      return fail(Code::invalid, "--secret: the variable " + env->second + " is not set");
    value = found;
  }
  if (parts["id"].empty() || (!parts.contains("src") && !parts.contains("env")))
    return fail(Code::invalid, "--secret is id=NAME,src=FILE or id=NAME,env=VARIABLE");
  return wire::HeaderField{"x-build-secret", parts["id"] + "=" + wire::base64(value)};
}

// A directory as tar; a file (zip or tar) as it is.
net::Task<Result<>> send_context(net::HttpClientStream& stream, const std::string& source) {
  std::error_code ec;
  if (std::filesystem::is_directory(source, ec)) {
    FB_CO_TRY_ASSIGN(const UniqueFd directory, sys::open(source, O_RDONLY | O_DIRECTORY));
    FB_CO_TRY_ASSIGN(auto tar, guest::TarSource::open(directory.get(), "."));
    for (bool more = true; more;) {
      std::string bytes;
      FB_CO_TRY_ASSIGN(more, tar->read(bytes));
      if (!bytes.empty() && !co_await stream.write(bytes, far_away())) break;
    }
  } else {
    FB_CO_TRY_ASSIGN(const UniqueFd file, sys::open(source, O_RDONLY));
    std::string piece(std::size_t{64} << 10, '\0');
    for (;;) {
      const ssize_t got = ::read(file.get(), piece.data(), piece.size());
      if (got < 0) co_return fail_errno("read " + source);
      if (got == 0) break;
      const std::string_view bytes(piece.data(), static_cast<std::size_t>(got));
      if (!co_await stream.write(bytes, far_away())) break;
    }
  }
  (void)co_await stream.finish(far_away());
  co_return Result<>();
}

net::Task<Result<>> follow(Client& client, const std::string& version_path) {
  FB_CO_TRY_ASSIGN(auto stream,
                   co_await client.start("GET", version_path + "/log?follow=1", false));
  FB_CO_TRY(co_await Client::check(*stream));
  LogOutput log(STDERR_FILENO);
  for (;;) {
    FB_CO_TRY_ASSIGN(const std::string bytes, co_await stream->read(far_away()));
    if (bytes.empty()) co_return log.finish();
    FB_CO_TRY(log.write(bytes));
  }
}

net::Task<Result<>> build(Client& client, const BuildOptions& options, bool as_json,
                          int& exit_code) {
  wire::Headers secrets;
  for (const std::string& secret : options.secrets) {
    FB_CO_TRY_ASSIGN(wire::HeaderField header, read_secret(secret));
    secrets.push_back(std::move(header));
  }
  FB_CO_TRY_ASSIGN(auto stream,
                   co_await client.start("POST", build_path(options), true, std::move(secrets)));
  FB_CO_TRY(co_await send_context(*stream, options.source));
  FB_CO_TRY(co_await Client::check(*stream));
  std::string body;
  for (;;) {
    FB_CO_TRY_ASSIGN(const std::string bytes, co_await stream->read(far_away()));
    if (bytes.empty()) break;
    body += bytes;
  }
  FB_CO_TRY_ASSIGN(const json::object made, parse_json_object(body));
  const std::string version_path = "/v1/images/" + percent_encode(options.name, "") + "/versions/" +
                                   percent_encode(text_of(made, "version"), "");
  if (text_of(made, "unchanged") == "true")
    print_error("nothing has changed since " + options.name + ":" + text_of(made, "version") +
                " was built; no new version was made (--no-cache makes one)");
  FB_CO_TRY(co_await follow(client, version_path));
  FB_CO_TRY_ASSIGN(const json::object version, co_await client.call("GET", version_path));
  if (text_of(version, "state") != "SUCCESSFUL") exit_code = 1;
  if (as_json)
    print_json(version);
  else if (exit_code == 0)
    print_line(options.name + ":" + text_of(version, "version"));
  co_return Result<>();
}

// NAME DIR, or --tag NAME[:ANYTHING] DIR.
Result<> read_words(BuildOptions& options) {
  constexpr const char* kUsage =
      "write 'firebreak image build NAME DIR' or 'firebreak image build -t NAME DIR'";
  if (!options.tag.empty()) {
    if (!options.source.empty())
      return fail(Code::invalid,
                  "'" + options.source + "' is one word too many for 'firebreak image build'",
                  Repair{"with -t, "
                         "give DIR alone"});
    options.source = std::exchange(options.name, options.tag);
  }
  if (options.name.empty() || options.source.empty())
    return fail(
        Code::invalid,
        std::string(options.name.empty() && options.tag.empty() ? "NAME and DIR are" : "DIR is") +
            " missing after 'firebreak image build'",
        Repair{kUsage});
  if (const auto colon = options.name.find(':'); colon != std::string::npos) {
    // Whoever writes web:latest must not find web:3.0 without a word.
    print_error("versions are numbered by the server; '" + options.name.substr(colon) +
                "' is left out");
    options.name.resize(colon);
  }
  return {};
}

void add_options(Command& build, BuildOptions& options) {
  build.option("-t,--tag", options.tag, "NAME[:VERSION]",
               "The image, in place of the word NAME; versions are numbered by the server");
  build.option("-f,--file", options.file, "FILE", "Dockerfile, below the context")
      .fallback("Dockerfile");
  build.option("--target", options.target, "STAGE", "Stop at this stage");
  build.option("--build-arg", options.args, "NAME=VALUE", "Value of an ARG").pair();
  build.option("--secret", options.secrets, "id=NAME,src=FILE",
               "For RUN --mount=type=secret; also id=NAME,env=VARIABLE");
  build.option("-e,--env", options.env, "NAME=VALUE", "Environment of runs of the image").pair();
  build.option("--memory", options.memory, "MIB", "Memory of its microVMs")
      .one_of({"512", "1024", "2048", "4096", "8192"});
  build.option("--ready", options.ready, "PATH:PORT", "Ready when a GET of it is answered with 200")
      .fallback("when the first port of EXPOSE is listened on");
  build.option("--hooks", options.hooks, "JSON",
               R"(Lifecycle hooks: {"port":9000,"ready":{"enabled":true}})");
  build.option("--egress", options.egress, "NAME", "Egress policy of runs that name none")
      .kind(ValueKind::policy);
  build.option("--build-egress", options.build_egress, "NAME", "Egress policy of the build")
      .kind(ValueKind::policy);
  build.flag("--no-cache", options.no_cache, "Carry out every instruction");
  build.flag("--python-context", options.python, "Freeze a warm Python interpreter into the image");
  build
      .option("--preload", options.preload, "LANGUAGE=MODULE,...",
              "Freeze a warm interpreter (python or node) that has loaded these, as "
              "python=pandas,numpy")
      .pair();
  build.flag("--prune", options.prune,
             "At the limit of versions, remove the oldest that no microVM uses");
}

}  // namespace

void add_build_command(Command& image, Common& common) {
  auto options = std::make_shared<BuildOptions>();
  Command& build_command =
      image.add("build", "Build an image from a Dockerfile; prints NAME:VERSION");
  build_command.about(
      "The build's log goes to standard error. The exit status is 1 when the build failed. A name\n"
      "that exists gets a new version: 1.0, 2.0 and so on.");
  build_command.usage("NAME DIR");
  build_command.word("NAME", options->name, "The image; left out with --tag")
      .kind(ValueKind::image);
  build_command.word("DIR", options->source, "Its context: a directory, a zip or a tar file")
      .kind(ValueKind::directory);
  add_options(build_command, *options);
  build_command.flag("--json", common.json, "Print the version as JSON");
  build_command.example("firebreak image build web ./app", "then: firebreak run web");
  build_command.example("firebreak image build -t web --build-arg V=2 .", "");
  build_command.check([options] { return read_words(*options); });
  run_with_client(build_command, common, [options, &common](Client& client, int& exit_code) {
    return build(client, *options, common.json, exit_code);
  });
}

}  // namespace firebreak::cli
