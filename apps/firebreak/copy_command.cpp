// cp: files and directories between here and a microVM, both ways.
#include <filesystem>
#include <memory>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rooted.h"
#include "base/sys.h"
#include "base/text.h"
#include "client/landing.h"
#include "client/unpack.h"
#include "commands.h"
#include "copy_streams.h"
#include "guest/tenant_tar.h"

namespace firebreak::cli {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kFileMode = 0644;

constexpr const char* kCopyAbout =
    R"(One of the two is ID:PATH, or both are; a path of this host with a colon is written ./a:b. Into a
directory that exists, the source keeps its name; DIR/. copies the content only.
With - a file is its bytes and a directory is a tar archive: an archive on standard input is
unpacked into a TARGET that is a directory or ends with a slash.)";

net::Task<Result<>> send_fd(Client& client, std::string path, int fd) {
  FB_CO_TRY_ASSIGN(auto stream, co_await client.start("PUT", std::move(path), true));
  std::string buffer(256UL * 1024, '\0');
  for (;;) {
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count < 0) co_return fail_errno("read");
    if (count == 0) break;
    // The answer to a refused upload comes while we still write.
    if (!co_await stream->write(std::string_view(buffer).substr(0, static_cast<std::size_t>(count)),
                                far_away()))
      break;
  }
  (void)co_await stream->finish(far_away());
  co_return co_await Client::check(*stream);
}

net::Task<Result<>> receive_fd(Client& client, std::string path, int fd) {
  FB_CO_TRY_ASSIGN(auto stream, co_await client.start("GET", std::move(path), false));
  FB_CO_TRY(co_await Client::check(*stream));
  for (;;) {
    FB_CO_TRY_ASSIGN(const std::string bytes, co_await stream->read(far_away()));
    if (bytes.empty()) co_return Result<>();
    FB_CO_TRY(sys::write_all(fd, bytes));
  }
}

net::Task<Result<>> send_directory(Client& client, std::string path, const std::string& from) {
  FB_CO_TRY_ASSIGN(const UniqueFd directory, sys::open(from, O_RDONLY | O_DIRECTORY));
  FB_CO_TRY_ASSIGN(auto source, guest::TarSource::open(directory.get(), "."));
  FB_CO_TRY_ASSIGN(auto stream, co_await client.start("PUT", std::move(path), true));
  for (bool more = true; more;) {
    std::string bytes;
    FB_CO_TRY_ASSIGN(more, source->read(bytes));
    if (!bytes.empty() && !co_await stream->write(bytes, far_away())) break;
  }
  (void)co_await stream->finish(far_away());
  co_return co_await Client::check(*stream);
}

// The mask is read by setting it; nothing else of this program runs meanwhile.
mode_t file_mask() {
  const mode_t mask = ::umask(0);
  (void)::umask(mask);
  return mask;
}

void tell_changes(const client::Unpack::Changes& changes) {
  if (changes.texts > 0)
    print_error(std::to_string(changes.texts) +
                " links that lead out of the target were written as text files; the first is " +
                changes.example);
  if (changes.left_out > 0)
    print_error(std::to_string(changes.left_out) + " pipes and devices were left out");
}

net::Task<Result<>> receive_directory(Client& client, std::string path, UniqueFd to) {
  FB_CO_TRY_ASSIGN(auto stream, co_await client.start("GET", std::move(path), false));
  FB_CO_TRY(co_await Client::check(*stream));
  client::Unpack unpack(std::move(to), file_mask());
  for (;;) {
    FB_CO_TRY_ASSIGN(const std::string bytes, co_await stream->read(far_away()));
    if (bytes.empty()) break;
    FB_CO_TRY(unpack.feed(bytes));
  }
  FB_CO_TRY(unpack.finish());
  tell_changes(unpack.changes());
  co_return Result<>();
}

// Under a name that nobody can foresee until it is whole: a link with that name would be written
// through.
net::Task<Result<>> receive_file(Client& client, std::string path, const client::Landing& to) {
  FB_CO_TRY_ASSIGN(const auto file, NewFile::create(to.directory.get()));
  FB_CO_TRY(co_await receive_fd(client, std::move(path), file->fd()));
  if (::fchmod(file->fd(), kFileMode & ~file_mask()) != 0) co_return fail_errno("chmod");
  co_return file->commit(to.name);
}

net::Task<Result<>> copy_in(Client& client, const Place& from, Place to) {
  FB_CO_TRY_ASSIGN(const std::string there, co_await type_in_guest(client, to));
  const std::string name = fs::absolute(from.path).lexically_normal().filename().string();
  if (there == "dir" || to.path.ends_with('/')) to.path = join_path(to.path, name);
  std::error_code ec;
  if (!fs::is_directory(from.path, ec)) {
    FB_CO_TRY_ASSIGN(UniqueFd file, sys::open(from.path, O_RDONLY));
    struct stat st{};
    ::fstat(file.get(), &st);
    char mode[8];
    (void)std::snprintf(mode, sizeof mode, "%04o", st.st_mode & 07777);
    co_return co_await send_fd(
        client, microvm_path(to.id, "/files" + file_query(to.path) + "&parents=1&mode=" + mode),
        file.get());
  }
  FB_CO_TRY(co_await client.call(
      "POST", microvm_path(to.id, "/files/mkdir" + file_query(to.path) + "&parents=1")));
  co_return co_await send_directory(client, microvm_path(to.id, "/tar" + file_query(to.path)),
                                    from.path);
}

net::Task<Result<>> copy_out(Client& client, const Place& from, const Place& to) {
  FB_CO_TRY_ASSIGN(const std::string type, co_await type_in_guest(client, from));
  if (type.empty()) co_return fail(Code::not_found, from.path + " does not exist in the microVM");
  const std::string name = fs::path(from.path).lexically_normal().filename().string();
  if (type == "dir") {
    FB_CO_TRY_ASSIGN(UniqueFd directory, client::land_directory(to.path, name));
    co_return co_await receive_directory(
        client, microvm_path(from.id, "/tar" + file_query(from.path)), std::move(directory));
  }
  FB_CO_TRY_ASSIGN(const client::Landing landing, client::land_file(to.path, name));
  co_return co_await receive_file(client, microvm_path(from.id, "/files" + file_query(from.path)),
                                  landing);
}

}  // namespace

void add_copy_command(Command& root, Common& common) {
  struct Options {
    std::string from;
    std::string to;
  };
  auto options = std::make_shared<Options>();
  Command& cp = root.add("cp", "Copy files and directories into, out of and between microVMs");
  cp.group(kInsideGroup);
  cp.about(kCopyAbout);
  cp.word("SOURCE", options->from, "PATH here, ID:PATH in a microVM, or - for standard input")
      .kind(ValueKind::file)
      .required("write 'firebreak cp SOURCE TARGET', one of them as ID:PATH");
  cp.word("TARGET", options->to, "The same; - is standard output")
      .kind(ValueKind::file)
      .required("write 'firebreak cp SOURCE TARGET', one of them as ID:PATH");
  cp.example("firebreak cp ./data ID:/tmp/", "becomes /tmp/data");
  cp.example("firebreak cp ID:/var/log - | tar t", "a directory as tar");
  cp.check([options] { return check_places(options->from, options->to); });
  run_with_client(cp, common, [options](Client& client, int&) -> net::Task<Result<>> {
    const Place from = parse_place(options->from);
    const Place to = parse_place(options->to);
    if (!from.id.empty() && !to.id.empty()) co_return co_await copy_between(client, from, to);
    if (options->from == "-") co_return co_await copy_from_stdin(client, to);
    if (options->to == "-") co_return co_await copy_to_stdout(client, from);
    if (from.id.empty()) co_return co_await copy_in(client, from, to);
    co_return co_await copy_out(client, from, to);
  });
}

}  // namespace firebreak::cli
