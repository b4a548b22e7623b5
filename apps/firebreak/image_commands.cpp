// image ls, bases, cache, show, history, logs, cancel, rm, prune; build is in build_command.cpp.
#include <memory>

#include <unistd.h>

#include "base/text.h"
#include "commands.h"

namespace firebreak::cli {
namespace {

std::string image_path(const std::string& name) {
  return "/v1/images/" + percent_encode(name, "");
}

// NAME or NAME:VERSION.
struct ImageAndVersion {
  std::string name;
  std::string version;  // may be empty

  explicit ImageAndVersion(const std::string& text) : name(text.substr(0, text.rfind(':'))) {
    if (name.size() < text.size()) version = text.substr(name.size() + 1);
  }
  std::string path() const {
    return image_path(name) + "/versions/" +
           percent_encode(version.empty() ? "latest" : version, "");
  }
};

std::string mib_of(const json::object& object, const char* member) {
  return std::to_string(parse_u64(text_of(object, member)).value_or(0) >> 20);
}

net::Task<Result<>> list(Client& client, bool quiet, bool as_json) {
  json::array items;
  FB_CO_TRY(co_await each_item(
      client, "/v1/images?", [&items](json::object image) { items.push_back(std::move(image)); }));
  if (as_json) {
    print_json(items);
    co_return Result<>();
  }
  TextTable table({"NAME", "STATE", "OWNER", "CREATED", "DISK MIB", "MEMORY MIB"});
  for (const json::value& item : items) {
    const json::object& image = item.as_object();
    if (quiet) {
      print_line(text_of(image, "name"));
      continue;
    }
    table.add({text_of(image, "name"), text_of(image, "state"),
               text_of(image, "system") == "true" ? "system" : "you", age_of(image, "createdAt"),
               mib_of(image, "diskBytes"), mib_of(image, "memoryBytes")});
  }
  if (!quiet) table.print();
  co_return Result<>();
}

net::Task<Result<>> cache(Client& client, bool as_json) {
  FB_CO_TRY_ASSIGN(const json::object answer, co_await client.call("GET", "/v1/build-cache"));
  if (as_json) {
    print_json(answer);
    co_return Result<>();
  }
  TextTable table({"KEPT", "COUNT", "MIB"});
  table.add({"layers", text_of(answer, "layers"), mib_of(answer, "layerBytes")});
  table.add({"cache mounts", "", mib_of(answer, "mountBytes")});
  table.print();
  co_return Result<>();
}

net::Task<Result<>> bases(Client& client, bool as_json) {
  FB_CO_TRY_ASSIGN(const json::object answer, co_await client.call("GET", "/v1/bases"));
  if (as_json) {
    print_json(answer.at("items"));
    co_return Result<>();
  }
  constexpr std::size_t kShortDigest = 19;  // with "sha256:"
  TextTable table({"NAME", "VERSION", "DIGEST", "MIB", "ALSO"});
  for (const json::value& item : answer.at("items").as_array()) {
    const json::object& base = item.as_object();
    std::string also;
    for (const json::value& alias : base.at("aliases").as_array())
      also += (also.empty() ? "" : " ") + std::string(alias.as_string());
    table.add({text_of(base, "name"), text_of(base, "version"),
               text_of(base, "digest").substr(0, kShortDigest), mib_of(base, "diskBytes"), also});
  }
  table.print();
  co_return Result<>();
}

net::Task<Result<>> show(Client& client, const std::string& text) {
  const ImageAndVersion image(text);
  const std::string path = image.version.empty() ? image_path(image.name) : image.path();
  FB_CO_TRY_ASSIGN(const json::object answer, co_await client.call("GET", path));
  print_json(answer);
  co_return Result<>();
}

net::Task<Result<>> history(Client& client, const std::string& text, bool as_json) {
  FB_CO_TRY_ASSIGN(const json::object answer,
                   co_await client.call("GET", ImageAndVersion(text).path()));
  const json::value* steps = answer.if_contains("steps");
  if (steps == nullptr || !steps->is_array())
    co_return fail(Code::not_found, text + " was not built from a Dockerfile");
  if (as_json) {
    print_json(*steps);
    co_return Result<>();
  }
  TextTable table({"SECONDS", "KIB", "CACHED", "STEP"});
  for (const json::value& item : steps->as_array()) {
    const json::object& step = item.as_object();
    const std::uint64_t ms = parse_u64(text_of(step, "ms")).value_or(0);
    const std::uint64_t bytes = parse_u64(text_of(step, "bytes")).value_or(0);
    const std::string what = text_of(step, "text");
    table.add({std::to_string(ms / 1000) + "." + std::to_string(ms % 1000 / 100),
               std::to_string(bytes >> 10), text_of(step, "cached") == "true" ? "yes" : "no",
               what.substr(0, what.find('\n')).substr(0, 100)});
  }
  table.print();
  co_return Result<>();
}

net::Task<Result<>> logs(Client& client, const std::string& text, bool follow) {
  FB_CO_TRY_ASSIGN(
      auto stream,
      co_await client.start(
          "GET", ImageAndVersion(text).path() + "/log" + (follow ? "?follow=1" : ""), false));
  FB_CO_TRY(co_await Client::check(*stream));
  LogOutput log(STDOUT_FILENO);
  for (;;) {
    FB_CO_TRY_ASSIGN(const std::string bytes, co_await stream->read(far_away()));
    if (bytes.empty()) co_return log.finish();
    FB_CO_TRY(log.write(bytes));
  }
}

net::Task<Result<>> remove(Client& client, const std::string& text) {
  const ImageAndVersion image(text);
  FB_CO_TRY(co_await client.call("DELETE",
                                 image.version.empty() ? image_path(image.name) : image.path()));
  co_return Result<>();
}

net::Task<Result<>> cancel(Client& client, const std::string& text) {
  FB_CO_TRY(co_await client.call("POST", ImageAndVersion(text).path() + "/cancel"));
  co_return Result<>();
}

// Of one image, or of all that are the tenant's own.
net::Task<Result<>> prune(Client& client, std::string name) {
  std::vector<std::string> names;
  if (!name.empty()) {
    names.push_back(std::move(name));
  } else {
    FB_CO_TRY(co_await each_item(client, "/v1/images?", [&names](json::object image) {
      if (text_of(image, "system") != "true") names.push_back(text_of(image, "name"));
    }));
  }
  for (const std::string& image : names) {
    FB_CO_TRY_ASSIGN(const json::object answer,
                     co_await client.call("POST", image_path(image) + "/prune"));
    for (const json::value& removed : answer.at("removed").as_array()) {
      if (removed.is_string()) print_line(image + ":" + std::string(removed.as_string()));
    }
  }
  co_return Result<>();
}

void add_lists(Command& image, Common& common) {
  auto quiet = std::make_shared<bool>(false);
  Command& ls = image.add("ls", "List your images and the system's").also({"list"});
  ls.flag("-q,--quiet", *quiet, "Print names only").excludes("--json");
  add_json_flag(ls, common);
  ls.example("firebreak image ls", "a table with what they occupy");
  ls.example("firebreak image ls -q", "for scripts");
  run_with_client(ls, common, [quiet, &common](Client& client, int&) {
    return list(client, *quiet, common.json);
  });
  Command& from = image.add("bases", "List the bases that every FROM can name");
  add_json_flag(from, common);
  from.example("firebreak image bases", "version, digest, MiB, other names");
  from.example("firebreak image bases --json", "");
  run_with_client(from, common,
                  [&common](Client& client, int&) { return bases(client, common.json); });
  Command& kept = image.add("cache", "Print what builds keep for your next ones");
  add_json_flag(kept, common);
  kept.example("firebreak image cache", "");
  kept.example("firebreak image cache --json", "");
  run_with_client(kept, common,
                  [&common](Client& client, int&) { return cache(client, common.json); });
}

Option& add_image_word(Command& command, std::string& name) {
  return command.word("NAME", name, "NAME, or NAME:VERSION, like web:1.0")
      .kind(ValueKind::image)
      .required("'firebreak image ls' lists them");
}

// Commands that read one image or version.
void add_readers(Command& image, Common& common) {
  auto name = std::make_shared<std::string>();
  auto following = std::make_shared<bool>(false);
  Command& one = image.add("show", "Print an image and its versions, or one version, as JSON");
  one.also({"inspect"});
  add_image_word(one, *name);
  one.example("firebreak image show web", "all versions");
  one.example("firebreak image show web:1.0", "configuration, steps and sizes");
  run_with_client(one, common, [name](Client& client, int&) { return show(client, *name); });
  Command& steps = image.add("history", "Print the steps of a build: time, size, whether cached");
  add_image_word(steps, *name);
  add_json_flag(steps, common);
  steps.example("firebreak image history web", "of the newest version");
  steps.example("firebreak image history web:1.0 --json", "");
  run_with_client(steps, common, [name, &common](Client& client, int&) {
    return history(client, *name, common.json);
  });
  Command& log = image.add("logs", "Print what a version's build printed");
  add_image_word(log, *name);
  log.flag("-f,--follow", *following, "Until the build has ended");
  log.example("firebreak image logs web", "of the newest version");
  log.example("firebreak image logs -f web:2.0", "while it is being built");
  run_with_client(log, common, [name, following](Client& client, int&) {
    return logs(client, *name, *following);
  });
}

void add_removers(Command& image, Common& common) {
  auto name = std::make_shared<std::string>();
  Command& end = image.add("cancel", "End the build of a version");
  add_image_word(end, *name);
  end.example("firebreak image cancel web", "the newest version's");
  end.example("firebreak image cancel web:2.0", "");
  run_with_client(end, common, [name](Client& client, int&) { return cancel(client, *name); });
  Command& rm = image.add("rm", "Remove an image and its snapshots, or one version");
  rm.also({"delete", "remove"});
  add_image_word(rm, *name);
  rm.about("Refused while microVMs of it live.");
  rm.example("firebreak image rm web", "all versions");
  rm.example("firebreak image rm web:1.0", "one");
  run_with_client(rm, common, [name](Client& client, int&) { return remove(client, *name); });
  Command& old = image.add("prune", "Remove versions that newer ones have replaced");
  old.about(
      "The newest active version stays, and so does every version of which microVMs live. Prints\n"
      "what was removed, as NAME:VERSION.");
  old.word("NAME", *name, "Name of an image").kind(ValueKind::image).fallback("all of yours");
  old.example("firebreak image prune web", "");
  old.example("firebreak image prune", "of every image of yours");
  run_with_client(old, common, [name](Client& client, int&) { return prune(client, *name); });
}

}  // namespace

void add_image_commands(Command& root, Common& common) {
  Command& image = root.add("image", "Build and manage images: what microVMs start from");
  image.group(kImageGroup).also({"images"});
  image.example("firebreak image build web ./app", "from a Dockerfile; then: firebreak run web");
  image.example("firebreak image ls", "");
  add_build_command(image, common);
  add_lists(image, common);
  add_readers(image, common);
  add_removers(image, common);
}

}  // namespace firebreak::cli
