// image build: a directory goes up, the log comes down.
#include <filesystem>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "base/sys.h"
#include "base/text.h"
#include "commands.h"
#include "guest/tenant_tar.h"
#include "wire/crypto.h"

namespace firebreak::cli {
namespace {

struct BuildOptions {
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
  std::uint32_t memory = 512;
  bool no_cache = false;
  bool python = false;
};

std::string build_path(const BuildOptions& options) {
  std::string path = "/v1/images/" + percent_encode(options.name, "") +
                     "/builds?memoryMib=" + std::to_string(options.memory);
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
  if (options.no_cache) path += "&noCache=1";
  if (options.python) path += "&pythonContext=1";
  return path;
}

// "id=NAME,src=FILE" or "id=NAME,env=VARIABLE", as a header.
Result<wire::HeaderField> read_secret(const std::string& text) {
  std::map<std::string, std::string, std::less<>> parts;
  for (const std::string_view part : split(text, ',')) {
    const auto at = part.find('=');
    if (at == std::string_view::npos) return fail(Code::invalid, "--secret is id=NAME,src=FILE");
    parts[std::string(part.substr(0, at))] = part.substr(at + 1);
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
  FB_CO_TRY(co_await follow(client, version_path));
  FB_CO_TRY_ASSIGN(const json::object version, co_await client.call("GET", version_path));
  if (text_of(version, "state") != "SUCCESSFUL") exit_code = 1;
  if (as_json)
    print_json(version);
  else if (exit_code == 0)
    print_line(options.name + ":" + text_of(version, "version"));
  co_return Result<>();
}

}  // namespace

void add_build_command(CLI::App& image, Common& common, std::vector<Command>& commands) {
  auto options = std::make_shared<BuildOptions>();
  CLI::App* build_app =
      image.add_subcommand("build", "Build an image from a Dockerfile; prints NAME:VERSION");
  build_app->add_option("NAME", options->name, "The image; a new version if it exists")->required();
  build_app->add_option("DIR", options->source, "The context: a directory, a zip or a tar file")
      ->required();
  build_app->add_option("--file,-f", options->file, "Dockerfile in the context");
  build_app->add_option("--target", options->target, "Stop at this stage");
  build_app->add_option("--build-arg", options->args, "NAME=VALUE for an ARG");
  build_app->add_option("--secret", options->secrets,
                        "id=NAME,src=FILE or id=NAME,env=VARIABLE, for RUN --mount=type=secret");
  build_app->add_option("--env", options->env, "NAME=VALUE for runs of the image");
  build_app->add_option("--memory", options->memory, "MiB: 512, 1024, 2048, 4096 or 8192")
      ->capture_default_str();
  build_app->add_option("--ready", options->ready,
                        "PATH:PORT: ready when a GET is answered with 200; default: when the first "
                        "port of EXPOSE is listened on");
  build_app->add_option("--hooks", options->hooks,
                        R"(Lifecycle hooks as JSON: {"port":9000,"ready":{"enabled":true}})");
  build_app->add_option("--egress", options->egress, "Egress policy of runs that name none");
  build_app->add_option("--build-egress", options->build_egress, "Egress policy of the build");
  build_app->add_flag("--no-cache", options->no_cache, "Carry out every instruction");
  build_app->add_flag("--python-context", options->python,
                      "Freeze a warm Python interpreter into the image");
  build_app->add_option(
      "--preload", options->preload,
      "LANGUAGE=MODULE,MODULE: freeze a warm interpreter (python or node) that has "
      "loaded these");
  build_app->add_flag("--json", common.json, "Print the version as JSON");
  commands.push_back({build_app, [options, &common] {
                        return with_client(common, [&](Client& client, int& exit_code) {
                          return build(client, *options, common.json, exit_code);
                        });
                      }});
}

}  // namespace firebreak::cli
