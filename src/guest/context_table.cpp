#include "guest/context_table.h"

#include <algorithm>

#include <unistd.h>

#include "guest/kernels/kernel_scripts.h"

namespace firebreak::guest {
namespace {

constexpr std::size_t kMaxContexts = 32;
constexpr std::size_t kMaxModules = 64;
constexpr std::size_t kMaxModuleName = 200;
constexpr std::size_t kRingMemory = kMaxContexts << 20;  // every context may have a full ring
// Above what the C libraries keep for themselves. Node listens to named signals only.
constexpr int kReseedSignal = 41;
constexpr int kNodeReseedSignal = 12;

// Each reads its kernel from descriptor 0, so that nothing of it is on the tenant's disk.
constexpr const char* kPythonBoot =
    "import os\n"
    "def r(n):\n"
    "    b = b''\n"
    "    while len(b) < n:\n"
    "        c = os.read(0, n - len(b))\n"
    "        if not c: os._exit(0)\n"
    "        b += c\n"
    "    return b\n"
    "exec(compile(r(int(r(8), 16)), '<firebreak>', 'exec'), {'__name__': 'firebreak_kernel'})\n";
constexpr const char* kBashBoot =
    "LC_ALL=C IFS= read -r -N 8 n; LC_ALL=C IFS= read -r -N $((16#$n)) s; eval \"$s\"";
constexpr const char* kNodeBoot =
    "const fs = require('fs');"
    "const r = n => { const b = Buffer.alloc(n); let i = 0;"
    " while (i < n) { const k = fs.readSync(0, b, i, n - i); if (!k) process.exit(0); i += k }"
    " return b };"
    "(0, eval)(r(parseInt(r(8).toString(), 16)).toString())";

bool installed(const Language& language) {
  ExecSpec spec;
  const auto env = build_environment({}, spec, "/");
  return std::ranges::any_of(program_candidates(std::string(language.program), env),
                             [](const auto& file) { return ::access(file.c_str(), X_OK) == 0; });
}

std::string installed_list() {
  std::string list;
  for (const Language& language : languages()) {
    if (!installed(language)) continue;
    if (!list.empty()) list += ", ";
    list += language.name;
  }
  return list.empty() ? "none" : list;
}

// What of the body says how the process is started, checked as for an exec.
Result<ExecSpec> process_spec(const json::object& body) {
  json::object exec{{"argv", {"interpreter"}}};
  for (const char* name : {"id", "env", "cwd", "user"}) {
    if (const json::value* value = body.if_contains(name)) exec[name] = *value;
  }
  return parse_exec_spec(exec);
}

Result<std::vector<std::string>> modules_of(const json::object& body, const Language& language) {
  JsonReader reader(body);
  std::vector<std::string> modules = reader.strings_or_empty("modules");
  if (!modules.empty() && !language.loads_modules)
    reader.reject("modules", "is not for " + std::string(language.name));
  if (modules.size() > kMaxModules)
    reader.reject("modules", "has more than " + std::to_string(kMaxModules) + " names");
  for (const std::string& name : modules) {
    if (name.empty() || name.size() > kMaxModuleName)
      reader.reject("modules", "has a name of no or too many characters");
  }
  FB_TRY(reader.result());
  return modules;
}

}  // namespace

const std::vector<Language>& languages() {
  static const std::vector<Language> kLanguages{
      {"bash",
       "bash",
       {"--noprofile", "--norc", "-c", kBashBoot},
       kBashKernel,
       kReseedSignal,
       false},
      {"node", "node", {"-e", kNodeBoot}, kNodeKernel, kNodeReseedSignal, true},
      {"python", "python3", {"-c", kPythonBoot}, kPythonKernel, kReseedSignal, true},
  };
  return kLanguages;
}

ContextTable::ContextTable(Reactor& reactor, ExecTable& execs, ReseedList& reseed)
    : reactor_(reactor), execs_(execs), reseed_(reseed), budget_(kRingMemory) {}

ContextTable::~ContextTable() = default;

std::string ContextTable::choose_id() {
  std::string id;
  do {
    id = "c" + std::to_string(next_id_++);
  } while (contexts_.contains(id));
  return id;
}

Result<std::shared_ptr<Context>> ContextTable::make(const json::object& body) {
  if (execs_.site() == nullptr) return fail(Code::conflict, "there is no tenant yet");
  JsonReader reader(body);
  const std::string name = reader.string("language");
  FB_TRY(reader.result());
  const auto language = std::ranges::find(languages(), name, &Language::name);
  if (language == languages().end())
    return fail(Code::invalid, Reason{"no_such_language"}, "no such language: " + name,
                Repair{"installed: " + installed_list()});
  FB_TRY_ASSIGN(ExecSpec spec, process_spec(body));
  FB_TRY_ASSIGN(std::vector<std::string> modules, modules_of(body, *language));
  if (contexts_.size() >= kMaxContexts)
    return fail(Code::exhausted, "too many contexts (" + std::to_string(kMaxContexts) + ")");
  if (contexts_.contains(spec.id))
    return fail(Code::conflict, Reason{"name_taken"}, "context " + spec.id + " exists");
  // Figures are drawn into memory, not on a screen.
  if (!execs_.site()->env.contains("MPLBACKEND")) spec.env.emplace("MPLBACKEND", "Agg");
  std::string id = spec.id.empty() ? choose_id() : spec.id;
  return std::make_shared<Context>(Context::Site{reactor_, execs_, budget_, reseed_}, std::move(id),
                                   *language, std::move(spec), std::move(modules));
}

void ContextTable::create(const json::object& body, const Made& made) {
  auto context = make(body);
  if (!context) return made(context);
  const std::string id = (*context)->id();
  auto started = (*context)->start([this, id, made](const Result<>& result) {
    const auto at = contexts_.find(id);
    if (at == contexts_.end()) return made(fail(Code::conflict, "context " + id + " was deleted"));
    const std::shared_ptr<Context> one = at->second;
    if (result) return made(one);
    contexts_.erase(at);
    // Not now: it is in the middle of saying so.
    reactor_.defer([one] {});
    made(std::unexpected(result.error()));
  });
  if (!started) {
    if (started.error().code == Code::not_found)
      return made(fail(Code::not_found,
                       std::string((*context)->language().program) + " is not installed",
                       Repair{"installed: " + installed_list()}));
    return made(std::unexpected(started.error()));
  }
  contexts_[id] = *std::move(context);
}

Result<std::shared_ptr<Context>> ContextTable::find(const std::string& id) const {
  const auto at = contexts_.find(id);
  if (at == contexts_.end())
    return fail(Code::not_found, Reason{"context_not_found"}, "no context " + id);
  return at->second;
}

Result<> ContextTable::remove(const std::string& id) {
  FB_TRY_ASSIGN(const auto context, find(id));
  contexts_.erase(id);
  context->end();
  return {};
}

}  // namespace firebreak::guest
