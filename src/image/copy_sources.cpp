#include "image/copy_sources.h"

#include <algorithm>
#include <map>

#include "base/text.h"

namespace firebreak::image {
namespace {

using Type = ContextEntry::Type;
constexpr int kMaxLinks = 40;

std::string_view name_of(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

class Selector {
 public:
  Selector(const BuildContext& context, const wire::IgnoreRules& ignore,
           const wire::IgnoreRules& excludes, bool in_order, Deadline deadline)
      : context_(context),
        ignore_(ignore),
        excludes_(excludes),
        in_order_(in_order),
        deadline_(deadline) {}

  Result<> add_source(const std::string& source) {
    const std::string path = wire::clean_path("/" + source).substr(1);
    if (!wire::PathPattern::is_pattern(path)) return add_one(path, source);
    FB_TRY_ASSIGN(const wire::PathPattern pattern,
                  wire::PathPattern::parse(path, wire::PathPattern::Stars::within_name));
    for (const auto& [other, entry] : context_.entries()) {
      FB_TRY(in_time());
      if (!pattern.matches(other)) continue;
      FB_TRY_ASSIGN(const bool seen, visible(other, entry));
      if (seen) FB_TRY(add_one(other, other));
    }
    return {};
  }

  CopySelection finish() {
    close_source();
    CopySelection selection;
    machine::Sha256 digest;
    for (CopyItem& item : chosen_) {
      const ContextEntry* entry = context_.find(item.path);
      std::string line;
      for (const std::string& part : describe(item, entry)) {
        put_u64(line, part.size());
        line += part;
      }
      digest.update(line);
      selection.items.push_back(std::move(item));
    }
    selection.digest = digest.hex();
    return selection;
  }
  bool empty() const { return items_.empty() && chosen_.empty(); }

 private:
  static std::vector<std::string> describe(const CopyItem& item, const ContextEntry* entry) {
    if (entry == nullptr) return {"the destination is a directory"};
    const char* type = entry->type == Type::file  ? "file"
                       : entry->type == Type::dir ? "dir"
                                                  : "symlink";
    return {item.to, item.named ? std::string(type) + "!" : type, std::to_string(entry->mode),
            entry->sha256, entry->target};
  }

  Result<> in_time() const {
    if (!deadline_.passed()) return {};
    return fail(Code::timeout, "choosing the files to copy took too long",
                Repair{"use fewer patterns"});
  }

  // Not left out by .dockerignore, or a directory of which something may not be.
  Result<bool> visible(const std::string& path, const ContextEntry& entry) const {
    if (!ignore_.excludes(path)) return true;
    if (entry.type != Type::dir || !ignore_.has_exceptions()) return false;
    return holds_visible(path);
  }

  Result<bool> holds_visible(const std::string& dir) const {
    const std::string prefix = dir + "/";
    for (auto at = context_.entries().lower_bound(prefix);
         at != context_.entries().end() && at->first.starts_with(prefix); ++at) {
      FB_TRY(in_time());
      if (at->second.type != Type::dir && !ignore_.excludes(at->first)) return true;
    }
    return false;
  }

  // Symbolic links on the way are followed, inside the context.
  Result<std::string> follow(std::string path, const std::string& source) const {
    for (int links = 0; links <= kMaxLinks; ++links) {
      std::string walked;
      bool again = false;
      for (const std::string_view part : split(path, '/')) {
        if (part.empty()) continue;
        const std::string parent = walked;
        walked += (walked.empty() ? "" : "/") + std::string(part);
        const ContextEntry* entry = context_.find(walked);
        if (entry == nullptr)
          return fail(Code::not_found, quoted_path(source) + " is not in the context");
        if (entry->type != Type::symlink) continue;
        const std::string target =
            entry->target.starts_with('/') ? entry->target : parent + "/" + entry->target;
        const std::string rest = path.substr(walked.size());
        path = wire::clean_path("/" + target + rest).substr(1);
        again = true;
        break;
      }
      if (!again) return path;
    }
    return fail(Code::invalid, quoted_path(source) + " leads through too many symbolic links");
  }

  Result<> add_one(const std::string& path, const std::string& source) {
    FB_TRY(add_named(path, source));
    if (in_order_) close_source();
    return {};
  }

  // What comes next does not replace what was chosen.
  void close_source() {
    for (auto& [to, item] : items_) chosen_.push_back(std::move(item));
    items_.clear();
  }

  Result<> add_named(const std::string& path, const std::string& source) {
    FB_TRY_ASSIGN(const std::string real, follow(path, source));
    if (real.empty()) return add_tree("");
    const ContextEntry* entry = context_.find(real);
    FB_TRY_ASSIGN(const bool seen, visible(real, *entry));
    if (!seen)
      return fail(Code::not_found,
                  quoted_path(source) + " is in the context, but .dockerignore leaves it out");
    if (entry->type == Type::dir) return add_tree(real);
    const std::string name(name_of(path));
    return add(real, name, true);
  }

  // What is in a directory; not the directory, whose place the destination takes.
  Result<> add_tree(const std::string& dir) {
    const std::string prefix = dir.empty() ? "" : dir + "/";
    FB_TRY(add("", "", false));
    for (auto at = context_.entries().lower_bound(prefix);
         at != context_.entries().end() && at->first.starts_with(prefix); ++at) {
      FB_TRY(in_time());
      const std::string below = at->first.substr(prefix.size());
      if (ignore_.excludes(at->first) || excludes_.excludes(below)) continue;
      FB_TRY(add_with_parents(prefix, below));
    }
    return {};
  }

  // A directory that is left out comes back for what an exception keeps in it.
  Result<> add_with_parents(const std::string& prefix, const std::string& below) {
    for (std::size_t slash = below.find('/'); slash != std::string::npos;
         slash = below.find('/', slash + 1)) {
      const std::string parent = below.substr(0, slash);
      if (!items_.contains(parent)) FB_TRY(add(prefix + parent, parent, false));
    }
    return add(prefix + below, below, false);
  }

  // The last source wins, as if they were copied one after the other.
  Result<> add(const std::string& path, const std::string& to, bool named) {
    const auto [at, added] =
        items_.try_emplace(to, CopyItem{.path = path, .to = to, .named = named});
    if (added) return {};
    const auto is_dir = [this](const std::string& other) {
      const ContextEntry* entry = context_.find(other);
      return entry == nullptr || entry->type == Type::dir;
    };
    if (is_dir(at->second.path) != is_dir(path))
      return fail(Code::invalid,
                  "two sources have " + quoted_path(to) + ", one as a directory and one as a file");
    at->second = {.path = path, .to = to, .named = named};
    return {};
  }

  const BuildContext& context_;
  const wire::IgnoreRules& ignore_;
  const wire::IgnoreRules& excludes_;
  bool in_order_;
  Deadline deadline_;
  std::map<std::string, CopyItem> items_;  // by `to`
  std::vector<CopyItem> chosen_;           // of sources that are closed
};

}  // namespace

Result<CopySelection> select_sources(const BuildContext& context, const wire::IgnoreRules& ignore,
                                     const CopyQuery& query, Deadline deadline) {
  FB_TRY_ASSIGN(const wire::IgnoreRules excludes, wire::IgnoreRules::of(query.excludes));
  Selector selector(context, ignore, excludes, query.in_order, deadline);
  for (const std::string& source : query.sources) FB_TRY(selector.add_source(source));
  if (selector.empty() && !query.sources.empty())
    return fail(Code::not_found,
                "no file of the context matches " + quoted_path(query.sources.front()));
  return selector.finish();
}

}  // namespace firebreak::image
