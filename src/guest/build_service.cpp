#include "guest/build_service.h"

#include "base/sys.h"
#include "base/text.h"
#include "guest/file_service.h"
#include "guest/layer_sink.h"
#include "guest/tenant_tar.h"
#include "guest/transfer.h"
#include "guest/users.h"
#include "wire/decompress.h"

namespace firebreak::guest {
namespace {

// A tar archive, compressed or not, on its way into a directory.
class ArchiveSink final : public Sink {
 public:
  explicit ArchiveSink(std::unique_ptr<TarSink> tar)
      : tar_(std::move(tar)),
        decompressor_([this](std::string_view bytes) { return tar_->feed(bytes); }) {}
  Result<> write(std::string_view bytes) override { return decompressor_.feed(bytes); }
  Result<> finish() override {
    FB_TRY(decompressor_.finish());
    return tar_->finish();
  }

 private:
  std::unique_ptr<TarSink> tar_;
  wire::Decompressor decompressor_;
};

// The rule of COPY --chown: a name alone brings its first group, a number alone is the group, too.
Result<Owner> owner_of(int root, std::string_view spec) {
  FB_TRY_ASSIGN(const UserSpec user, resolve_user(root, spec));
  return Owner{.uid = user.uid, .gid = parse_u64(spec) ? user.uid : user.gid};
}

// ?path, and ?user for the owner of everything; ?staging in place of the tenant's root.
Result<std::unique_ptr<Sink>> open_unpack(const Request& request, int root) {
  std::optional<Owner> owner;
  if (request.has("user")) {
    FB_TRY_ASSIGN(owner, owner_of(root, request.param("user")));
  }
  UniqueFd staging;
  if (request.has("staging")) {
    FB_TRY_ASSIGN(staging, open_staging(std::string(request.param("staging"))));
  }
  FB_TRY_ASSIGN(auto tar, TarSink::open_for(staging ? staging.get() : root,
                                            std::string(request.param("path")), owner));
  return std::make_unique<ArchiveSink>(std::move(tar));
}

// A layer of an image, which the host has packed anew.
class LayerUpload final : public Sink {
 public:
  explicit LayerUpload(std::unique_ptr<LayerSink> layer) : layer_(std::move(layer)) {}
  Result<> write(std::string_view bytes) override { return layer_->feed(bytes); }
  Result<> finish() override { return layer_->finish(); }

 private:
  std::unique_ptr<LayerSink> layer_;
};

// Whether the beginning of a file is that of an archive: it has a first entry.
class ProbeSink final : public Sink, private wire::TarReader::Sink {
 public:
  Result<> write(std::string_view bytes) override {
    // Damage behind the first entry is for the unpacking to find.
    if (!found_) (void)decompressor_.feed(bytes);
    return {};
  }
  Result<> finish() override {
    if (found_) return {};
    return fail(Code::invalid, "this is not a tar archive");
  }

 private:
  Result<> on_entry(const wire::TarEntry&) override {
    found_ = true;
    return fail(Code::conflict, "enough");
  }
  Result<> on_data(std::string_view) override { return {}; }
  Result<> on_entry_end() override { return {}; }

  bool found_ = false;
  wire::TarReader reader_{*this};
  wire::Decompressor decompressor_{[this](std::string_view bytes) { return reader_.feed(bytes); }};
};

std::unique_ptr<StreamHandler> refuse(Exchange& exchange, const Error& error) {
  exchange.error(error);
  return nullptr;
}

}  // namespace

std::unique_ptr<StreamHandler> BuildService::open(const Request& request,
                                                  const std::shared_ptr<Exchange>& exchange) {
  if (execs_.site() == nullptr)
    return refuse(*exchange, {Code::conflict, "there is no tenant yet", {}});
  const int root = execs_.site()->root.get();
  if (request.is("PUT", "/build/tar")) {
    if (request.param("path").empty())
      return refuse(*exchange, {Code::invalid, "query value 'path' is missing", {}});
    return upload(reactor_, workers_, exchange, [=] { return open_unpack(request, root); });
  }
  if (request.is("GET", "/build/tar")) {
    return download(reactor_, workers_, exchange, [request]() -> Result<OpenedSource> {
      FB_TRY_ASSIGN(const UniqueFd staging, open_staging(std::string(request.param("staging"))));
      return open_packed(staging.get(), std::string(request.param("path")));
    });
  }
  if (request.is("PUT", "/build/layer")) {
    return upload(reactor_, workers_, exchange, [root]() -> Result<std::unique_ptr<Sink>> {
      FB_TRY_ASSIGN(auto layer, LayerSink::open(root));
      return std::make_unique<LayerUpload>(std::move(layer));
    });
  }
  if (request.is("PUT", "/build/probe")) {
    return upload(reactor_, workers_, exchange,
                  [] { return Result<std::unique_ptr<Sink>>(std::make_unique<ProbeSink>()); });
  }
  if (request.is("POST", "/build/mounts")) {
    return json_call(exchange, [this, exchange](const json::object& body) {
      auto mounts = parse_mounts(body);
      if (!mounts) return exchange->error(mounts.error());
      mount(*mounts, exchange);
    });
  }
  if (request.is("DELETE", "/build/mounts")) {
    if (auto cleared = mounts_.clear(root); !cleared) return refuse(*exchange, cleared.error());
    exchange->json(200, {});
    return nullptr;
  }
  if (request.segments.size() == 3 && request.segments[1] == "staging" &&
      (request.method == "PUT" || request.method == "DELETE")) {
    answer_from_worker(reactor_, workers_, exchange, [request]() -> Result<json::object> {
      const std::string& name = request.segments[2];
      FB_TRY_ASSIGN(const std::uint64_t bytes, request.number("bytes", 0));
      FB_TRY(request.method == "PUT" ? create_staging(name, bytes) : remove_staging(name));
      return json::object();
    });
    return nullptr;
  }
  return refuse(*exchange, {Code::not_found, "no such operation", {}});
}

// The parts are taken in the agent's namespace, by a worker, and put in place in the tenant's.
void BuildService::mount(const std::vector<StagedMount>& mounts,
                         const std::shared_ptr<Exchange>& exchange) {
  workers_.submit([this, mounts, exchange] {
    auto trees = std::make_shared<std::vector<UniqueFd>>();
    std::optional<Error> failure;
    for (const StagedMount& mount : mounts) {
      auto tree = detach_part(mount);
      if (!tree) {
        failure = tree.error();
        break;
      }
      trees->push_back(*std::move(tree));
    }
    reactor_.post([this, mounts, exchange, trees, failure] {
      if (failure) return exchange->error(*failure);
      const int root = execs_.site()->root.get();
      for (std::size_t i = 0; i < mounts.size(); ++i) {
        if (auto added = mounts_.add(root, mounts[i], std::move((*trees)[i])); !added) {
          (void)mounts_.clear(root);
          return exchange->error(added.error());
        }
      }
      exchange->json(200, {});
    });
  });
}

}  // namespace firebreak::guest
