#include "store/sqlite/test_disk.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

namespace firebreak::store {

namespace {

constexpr std::size_t kSector = 512;

sqlite3_vfs* real_vfs() {
  return sqlite3_vfs_find("unix");
}

}  // namespace

// SQLite allocates it; the first member is what SQLite sees.
struct TestDisk::Handle {
  sqlite3_file base;
  TestDisk* disk;
  bool new_name;  // its first sync reaches the directory, too
  std::shared_ptr<File> file;
  std::vector<std::unique_ptr<char[]>> shared;  // the log's index: memory, lost with the process
};

struct TestDisk::Methods {
  static Handle& handle(sqlite3_file* file) { return *reinterpret_cast<Handle*>(file); }
  static TestDisk& disk(sqlite3_vfs* vfs) { return *static_cast<TestDisk*>(vfs->pAppData); }

  static int open(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags, int* out) {
    TestDisk& disk = Methods::disk(vfs);
    file->pMethods = nullptr;
    std::shared_ptr<File> content;
    if (path != nullptr) content = disk.names_[path].current;
    const bool create = content == nullptr;
    if (create) {
      if (disk.cut_ || (flags & SQLITE_OPEN_CREATE) == 0) return SQLITE_CANTOPEN;
      content = std::make_shared<File>();
      if (path != nullptr) disk.names_[path].current = content;
      // The store makes this one itself, and syncs the directory.
      if ((flags & SQLITE_OPEN_MAIN_DB) != 0) disk.names_[path].durable = content;
    }
    // As the Unix VFS does.
    const bool new_name = create && (flags & (SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL)) != 0;
    new (file) Handle{{&kFile}, &disk, new_name, std::move(content), {}};
    if (out != nullptr) *out = flags;
    return SQLITE_OK;
  }

  static int close(sqlite3_file* file) {
    std::destroy_at(&handle(file));
    return SQLITE_OK;
  }

  static int read(sqlite3_file* file, void* to, int size, sqlite3_int64 offset) {
    const Handle& h = handle(file);
    if (h.disk->cut_) return SQLITE_IOERR_READ;
    const auto begin =
        std::min<std::size_t>(static_cast<std::size_t>(offset), h.file->current.size());
    const std::size_t got =
        std::min<std::size_t>(static_cast<std::size_t>(size), h.file->current.size() - begin);
    std::memset(to, 0, static_cast<std::size_t>(size));
    std::memcpy(to, h.file->current.data() + begin, got);
    return got == static_cast<std::size_t>(size) ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
  }

  static int write(sqlite3_file* file, const void* from, int size, sqlite3_int64 offset) {
    Handle& h = handle(file);
    if (h.disk->full_) return SQLITE_FULL;
    Write write{offset, {static_cast<const char*>(from), static_cast<std::size_t>(size)}, false};
    if (!h.disk->spend([&] { h.file->unsynced.push_back(write); })) return SQLITE_IOERR_WRITE;
    apply(h.file->current, write);
    h.file->unsynced.push_back(std::move(write));
    ++h.file->writes;
    return SQLITE_OK;
  }

  static int truncate(sqlite3_file* file, sqlite3_int64 size) {
    Handle& h = handle(file);
    const Write write{size, "", true};
    if (!h.disk->spend([&] { h.file->unsynced.push_back(write); })) return SQLITE_IOERR_TRUNCATE;
    apply(h.file->current, write);
    h.file->unsynced.push_back(write);
    return SQLITE_OK;
  }

  static int sync(sqlite3_file* file, int /*flags*/) {
    Handle& h = handle(file);
    if (!h.disk->spend()) return SQLITE_IOERR_FSYNC;
    h.file->durable = h.file->current;
    h.file->unsynced.clear();
    if (std::exchange(h.new_name, false)) {
      for (auto& [path, name] : h.disk->names_) name.durable = name.current;
    }
    return SQLITE_OK;
  }

  static int remove(sqlite3_vfs* vfs, const char* path, int sync_directory) {
    TestDisk& disk = Methods::disk(vfs);
    auto found = disk.names_.find(path);
    if (found == disk.names_.end() || found->second.current == nullptr) {
      return SQLITE_IOERR_DELETE_NOENT;
    }
    if (!disk.spend()) return SQLITE_IOERR_DELETE;
    found->second.current.reset();
    if (sync_directory != 0) found->second.durable.reset();
    return SQLITE_OK;
  }

  static int access(sqlite3_vfs* vfs, const char* path, int /*flags*/, int* out) {
    const TestDisk& disk = Methods::disk(vfs);
    auto found = disk.names_.find(path);
    *out = found != disk.names_.end() && found->second.current != nullptr ? 1 : 0;
    return SQLITE_OK;
  }

  static int full_path(sqlite3_vfs*, const char* path, int size, char* out) {
    return sqlite3_snprintf(size, out, "%s", path) != nullptr ? SQLITE_OK : SQLITE_CANTOPEN;
  }

  static int file_size(sqlite3_file* file, sqlite3_int64* out) {
    *out = static_cast<sqlite3_int64>(handle(file).file->current.size());
    return SQLITE_OK;
  }

  static int map_shared(sqlite3_file* file, int region, int size, int extend, void volatile** out) {
    auto& shared = handle(file).shared;
    while (extend != 0 && shared.size() <= static_cast<std::size_t>(region)) {
      shared.push_back(std::make_unique<char[]>(static_cast<std::size_t>(size)));
    }
    *out = shared.size() > static_cast<std::size_t>(region) ? shared[region].get() : nullptr;
    return SQLITE_OK;
  }

  static int unmap_shared(sqlite3_file* file, int /*remove*/) {
    handle(file).shared.clear();
    return SQLITE_OK;
  }

  static const sqlite3_io_methods kFile;
};

const sqlite3_io_methods TestDisk::Methods::kFile{
    .iVersion = 2,
    .xClose = close,
    .xRead = read,
    .xWrite = write,
    .xTruncate = truncate,
    .xSync = sync,
    .xFileSize = file_size,
    .xLock = [](sqlite3_file*, int) { return SQLITE_OK; },
    .xUnlock = [](sqlite3_file*, int) { return SQLITE_OK; },
    .xCheckReservedLock =
        [](sqlite3_file*, int* out) {
          *out = 0;
          return SQLITE_OK;
        },
    .xFileControl = [](sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; },
    .xSectorSize = [](sqlite3_file*) { return 4096; },
    // As the Unix VFS has it: bytes beside those that are written stay as they are.
    .xDeviceCharacteristics = [](sqlite3_file*) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; },
    .xShmMap = map_shared,
    .xShmLock = [](sqlite3_file*, int, int, int) { return SQLITE_OK; },
    .xShmBarrier = [](sqlite3_file*) {},
    .xShmUnmap = unmap_shared,
};

TestDisk::TestDisk(std::string name) : name_(std::move(name)) {
  vfs_ = {
      .iVersion = 2,
      .szOsFile = sizeof(Handle),
      .mxPathname = 512,
      .zName = name_.c_str(),
      .pAppData = this,
      .xOpen = Methods::open,
      .xDelete = Methods::remove,
      .xAccess = Methods::access,
      .xFullPathname = Methods::full_path,
      .xRandomness = [](sqlite3_vfs*, int size,
                        char* out) { return real_vfs()->xRandomness(real_vfs(), size, out); },
      .xSleep = [](sqlite3_vfs*, int us) { return us; },
      .xCurrentTime = [](sqlite3_vfs*,
                         double* out) { return real_vfs()->xCurrentTime(real_vfs(), out); },
      .xGetLastError = [](sqlite3_vfs*, int, char*) { return 0; },
      .xCurrentTimeInt64 =
          [](sqlite3_vfs*, sqlite3_int64* out) {
            return real_vfs()->xCurrentTimeInt64(real_vfs(), out);
          },
  };
  sqlite3_vfs_register(&vfs_, 0);
}

TestDisk::~TestDisk() {
  sqlite3_vfs_unregister(&vfs_);
}

bool TestDisk::spend(const std::function<void()>& half) {
  if (cut_) return false;
  if (left_ == 0) {
    cut_ = true;
    if (half) half();
    return false;
  }
  if (left_ != UINT64_MAX) --left_;
  return true;
}

void TestDisk::apply(std::string& content, const Write& write) {
  const auto offset = static_cast<std::size_t>(write.offset);
  if (write.truncate) {
    content.resize(offset);
    return;
  }
  if (content.size() < offset + write.data.size()) content.resize(offset + write.data.size());
  content.replace(offset, write.data.size(), write.data);
}

void TestDisk::reboot(Loss loss, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  auto survives = [&] { return loss == Loss::random_sectors && random() % 2 == 0; };
  auto settle = [&](File& file) {
    for (const Write& write : file.unsynced) {
      if (write.truncate && survives()) apply(file.durable, write);
      // Cut at the sectors of the disk, not of the write.
      for (std::size_t done = 0; done < write.data.size();) {
        const auto begin = static_cast<std::size_t>(write.offset) + done;
        const std::size_t size = std::min(kSector - begin % kSector, write.data.size() - done);
        if (survives()) {
          apply(file.durable,
                {static_cast<std::int64_t>(begin), write.data.substr(done, size), false});
        }
        done += size;
      }
    }
    file.unsynced.clear();
    file.current = file.durable;
  };
  for (auto& [path, name] : names_) {
    if (!survives()) name.current = name.durable;
    name.durable = name.current;
    if (name.current != nullptr) settle(*name.current);
  }
  left_ = UINT64_MAX;
  cut_ = false;
}

std::uint64_t TestDisk::writes_to(const std::string& path) const {
  auto found = names_.find(path);
  return found == names_.end() || found->second.current == nullptr ? 0
                                                                   : found->second.current->writes;
}

}  // namespace firebreak::store
