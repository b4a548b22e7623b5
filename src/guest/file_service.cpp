#include "guest/file_service.h"

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "base/sys.h"
#include "guest/tenant_files.h"
#include "guest/tenant_tar.h"
#include "guest/transfer.h"
#include "guest/users.h"

namespace firebreak::guest {
namespace {

class FileSource final : public Source {
 public:
  FileSource(UniqueFd fd, std::uint64_t offset, std::uint64_t length)
      : fd_(std::move(fd)), offset_(offset), left_(length) {}
  Result<bool> read(std::string& out, std::size_t want) override {
    const std::size_t size = std::min<std::uint64_t>(want, left_);
    const std::size_t held = out.size();
    out.resize(held + size);
    ssize_t n = 0;
    do {
      n = ::pread(fd_.get(), out.data() + held, size, static_cast<off_t>(offset_));
    } while (n < 0 && errno == EINTR);
    if (n < 0) return fail_errno("read");
    out.resize(held + static_cast<std::size_t>(n));
    offset_ += static_cast<std::uint64_t>(n);
    left_ -= static_cast<std::uint64_t>(n);
    return n > 0 && left_ > 0;
  }

 private:
  UniqueFd fd_;
  std::uint64_t offset_;
  std::uint64_t left_;
};

class ListSource final : public Source {
 public:
  explicit ListSource(DirLister lister) : lister_(std::move(lister)) {}
  Result<bool> read(std::string& out, std::size_t want) override {
    bool more = true;
    while (more && out.size() < want) {
      FB_TRY_ASSIGN(more, lister_.next(batch_));
      if (!more) break;
      for (const FileInfo& info : batch_)
        out.append(json::serialize(to_json(info))).push_back('\n');
    }
    return more;
  }

 private:
  DirLister lister_;
  std::vector<FileInfo> batch_;
};

class PackSource final : public Source {
 public:
  explicit PackSource(std::unique_ptr<TarSource> tar) : tar_(std::move(tar)) {}
  Result<bool> read(std::string& out, std::size_t want) override { return tar_->read(out, want); }

 private:
  std::unique_ptr<TarSource> tar_;
};

class FileSink final : public Sink {
 public:
  explicit FileSink(std::unique_ptr<FileWriter> writer) : writer_(std::move(writer)) {}
  Result<> write(std::string_view bytes) override { return writer_->write(bytes); }
  Result<> finish() override { return writer_->commit(); }

 private:
  std::unique_ptr<FileWriter> writer_;
};

class UnpackSink final : public Sink {
 public:
  explicit UnpackSink(std::unique_ptr<TarSink> tar) : tar_(std::move(tar)) {}
  Result<> write(std::string_view bytes) override { return tar_->feed(bytes); }
  Result<> finish() override { return tar_->finish(); }

 private:
  std::unique_ptr<TarSink> tar_;
};

Result<std::string> path_of(const Request& request, std::string_view name = "path") {
  if (request.param(name).empty())
    return fail(Code::invalid, "query value '" + std::string(name) + "' is missing");
  return std::string(request.param(name));
}

Result<std::optional<mode_t>> mode_of(const Request& request) {
  if (!request.has("mode")) return std::nullopt;
  const std::string_view text = request.param("mode");
  unsigned mode = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
  if (text.empty() || ec != std::errc() || end != text.data() + text.size() || mode > 07777)
    return fail(Code::invalid, "query value 'mode' must be octal, at most 7777");
  return mode;
}

Result<OpenedSource> open_file(const Request& request, int root) {
  FB_TRY_ASSIGN(const std::string path, path_of(request));
  FB_TRY_ASSIGN(const std::uint64_t offset, request.number("offset", 0));
  FB_TRY_ASSIGN(const std::uint64_t length, request.number("length", UINT64_MAX));
  FB_TRY_ASSIGN(UniqueFd fd, TenantFiles(root).open_read(path));
  FB_TRY_ASSIGN(const std::uint64_t size, sys::file_size(fd.get()));
  OpenedSource opened;
  opened.headers.push_back({"x-size", std::to_string(size)});
  opened.source = std::make_unique<FileSource>(std::move(fd), offset, length);
  return opened;
}

Result<OpenedSource> open_list(const Request& request, int root) {
  FB_TRY_ASSIGN(const std::string path, path_of(request));
  FB_TRY_ASSIGN(DirLister lister, TenantFiles(root).list(path));
  OpenedSource opened;
  opened.content_type = "application/x-ndjson";
  opened.source = std::make_unique<ListSource>(std::move(lister));
  return opened;
}

Result<OpenedSource> open_pack(const Request& request, int root) {
  FB_TRY_ASSIGN(const std::string path, path_of(request));
  return open_packed(root, path);
}

Result<std::unique_ptr<Sink>> open_unpack(const Request& request, int root) {
  FB_TRY_ASSIGN(const std::string path, path_of(request));
  FB_TRY_ASSIGN(auto tar, TarSink::open(root, path));
  return std::make_unique<UnpackSink>(std::move(tar));
}

Result<std::unique_ptr<Sink>> open_writer(const Request& request, int root) {
  WriteOptions options;
  FB_TRY_ASSIGN(options.path, path_of(request));
  FB_TRY_ASSIGN(options.mode, mode_of(request));
  options.append = request.flag("append");
  options.parents = request.flag("parents");
  if (request.has("offset")) {
    FB_TRY_ASSIGN(const std::uint64_t offset, request.number("offset", 0));
    options.offset = offset;
  }
  if (request.has("user")) {
    FB_TRY_ASSIGN(const UserSpec user, resolve_user(root, request.param("user")));
    options.owner = Owner{user.uid, user.gid};
  }
  FB_TRY_ASSIGN(auto writer, TenantFiles(root).open_write(options));
  return std::make_unique<FileSink>(std::move(writer));
}

Result<json::object> run_call(const Request& request, int root) {
  const TenantFiles files(root);
  if (request.is("POST", "/files/rename")) {
    FB_TRY_ASSIGN(const std::string from, path_of(request, "from"));
    FB_TRY_ASSIGN(const std::string to, path_of(request, "to"));
    FB_TRY(files.rename(from, to));
    return json::object();
  }
  FB_TRY_ASSIGN(const std::string path, path_of(request));
  if (request.is("GET", "/files/stat")) {
    FB_TRY_ASSIGN(const FileInfo info, files.stat(path, request.flag("follow")));
    return to_json(info);
  }
  if (request.is("POST", "/files/mkdir")) {
    FB_TRY_ASSIGN(const std::optional<mode_t> mode, mode_of(request));
    FB_TRY(files.mkdir(path, mode.value_or(0755), request.flag("parents")));
    return json::object();
  }
  if (request.is("POST", "/files/remove")) {
    FB_TRY(files.remove(path, request.flag("recursive")));
    return json::object();
  }
  return fail(Code::not_found, "no such operation");
}

}  // namespace

Result<OpenedSource> open_packed(int root, const std::string& path) {
  FB_TRY_ASSIGN(auto tar, TarSource::open(root, path));
  OpenedSource opened;
  opened.content_type = "application/x-tar";
  opened.source = std::make_unique<PackSource>(std::move(tar));
  return opened;
}

std::unique_ptr<StreamHandler> FileService::open(const Request& request,
                                                 const std::shared_ptr<Exchange>& exchange) {
  if (execs_.site() == nullptr) {
    exchange->error({Code::conflict, "there is no tenant yet", {}});
    return nullptr;
  }
  const int root = execs_.site()->root.get();
  if (auto handler = stream(request, exchange, root)) return handler;
  answer_from_worker(reactor_, workers_, exchange,
                     [request, root] { return run_call(request, root); });
  return nullptr;
}

std::unique_ptr<StreamHandler> FileService::stream(const Request& request,
                                                   const std::shared_ptr<Exchange>& exchange,
                                                   int root) {
  const auto from = [&](auto opener) {
    return download(reactor_, workers_, exchange, [=] { return opener(request, root); });
  };
  const auto to = [&](auto opener) {
    return upload(reactor_, workers_, exchange, [=] { return opener(request, root); });
  };
  if (request.is("GET", "/files")) return from(open_file);
  if (request.is("GET", "/files/list")) return from(open_list);
  if (request.is("GET", "/tar")) return from(open_pack);
  if (request.is("PUT", "/files")) return to(open_writer);
  if (request.is("PUT", "/tar")) return to(open_unpack);
  return nullptr;
}

}  // namespace firebreak::guest
