// Files and trees of a real guest, over the agent.
#include <gmock/gmock.h>

#include "base/json.h"
#include "base/text.h"
#include "vm/agent_case.h"

namespace firebreak::testing_support {
namespace {

using testing::HasSubstr;

class AgentFiles : public AgentCase {
 protected:
  static void run(const std::function<Task<void>(Machine& machine)>& body) {
    with_clone([&](std::unique_ptr<Machine>& machine) -> Task<void> { co_await body(*machine); });
  }
};

std::string file_target(const std::string& path, const std::string& more = "") {
  return "/files?path=" + percent_encode(path) + more;
}

// The answer to a call on a path: nothing when it succeeded.
Task<std::optional<Code>> call(Machine& machine, std::string method, std::string target,
                               std::string_view body = {}) {
  auto reply = co_await request(machine, std::move(method), std::move(target), body);
  if (!reply) {
    ADD_FAILURE() << reply.error().text();
    co_return Code::guest;
  }
  co_return code_of(*reply);
}

Task<Result<json::object>> stat(Machine& machine, std::string path, bool follow = false) {
  return machine.agent().data_call(
      "GET", "/files/stat?path=" + percent_encode(path) + (follow ? "&follow=1" : ""), {},
      patience());
}

constexpr std::optional<Code> kDone = std::nullopt;

// Describes a tree so that two equal descriptions mean equal trees: names, types, modes, owners,
// times, contents, targets, and which names are the same file.
constexpr const char* kDescribe = R"(
import hashlib, os, stat, sys
def describe(root):
    lines, seen = [], {}
    for where, dirs, files in os.walk(root):
        for name in dirs + files:
            path = os.path.join(where, name)
            st = os.lstat(path)
            what = b''
            if stat.S_ISLNK(st.st_mode): what = os.readlink(path)
            elif stat.S_ISREG(st.st_mode): what = hashlib.sha256(open(path, 'rb').read()).hexdigest().encode()
            inner = os.path.relpath(path, root)
            same = seen.setdefault(st.st_ino, inner) if st.st_nlink > 1 and not stat.S_ISDIR(st.st_mode) else b''
            time = 0 if stat.S_ISLNK(st.st_mode) else st.st_mtime_ns // 10**9
            lines.append(repr((inner, oct(st.st_mode), st.st_uid, st.st_gid, time, what, bool(same))))
    return sorted(lines)
)";

constexpr const char* kMakeTree = R"(
import os
root = b'/root/tree'
os.makedirs(root + b'/empty')
names = [b'n' + bytes([b]) for b in range(1, 256) if b != 47]
names += [b' leading and trailing ', b'line\nbreak', b'x' * 255, '\u00e9\u4e2d'.encode(), b'-dash', b'\\back', b'a%41']
os.mkdir(root + b'/names')
for name in names:
    with open(root + b'/names/' + name, 'wb') as f: f.write(name * 3)
deep = root
for i in range(12):
    deep += b'/' + b'directory-%02d-' % i + b'd' * 40
    os.mkdir(deep)
with open(deep + b'/file', 'wb') as f: f.write(os.urandom(100000))
with open(root + b'/zero', 'wb'): pass
with open(root + b'/block', 'wb') as f: f.write(b'b' * 512)
os.symlink(b'names/' + b'x' * 255, root + b'/long-link')
os.symlink(b'/no/such/place', root + b'/dangling')
os.symlink(b'bytes \xff\xfe', root + b'/binary link')
os.link(root + b'/block', root + b'/hard')
os.mkfifo(root + b'/fifo', 0o620)
for mode in (0o000, 0o400, 0o755, 0o777, 0o1644, 0o2755, 0o4755):
    with open(root + b'/mode-%04o' % mode, 'wb') as f: f.write(b'm')
    os.chown(root + b'/mode-%04o' % mode, 1000, 2000)
    os.chmod(root + b'/mode-%04o' % mode, mode)
os.mkdir(root + b'/sticky'); os.chmod(root + b'/sticky', 0o1777)
os.utime(root + b'/block', ns=(10**18, 10**18 + 123456789))
os.utime(root + b'/empty', ns=(10**17, 10**17))
)";

TEST_F(AgentFiles, ReadWriteAppendAndInPlace) {
  run([](Machine& machine) -> Task<void> {
    const std::string path = "/root/new/dir/a b\xC3\xA9\xFF\n";
    const std::string content = random_text(300'000, 7);
    EXPECT_EQ(co_await call(machine, "PUT", file_target(path), content), Code::not_found);
    EXPECT_EQ(co_await call(machine, "PUT",
                            file_target(path, "&parents=1&mode=0640&user=daemon:games"), content),
              kDone);
    CO_VALUE(auto info, co_await stat(machine, path));
    EXPECT_EQ(info.at("name").as_string(), "a%20b%C3%A9%FF%0A");
    EXPECT_EQ(info.at("type").as_string(), "file");
    EXPECT_EQ(info.at("size").as_int64(), 300'000);
    EXPECT_EQ(info.at("mode").as_int64(), 0640);
    EXPECT_EQ(info.at("uid").as_int64(), 1);
    EXPECT_EQ(info.at("gid").as_int64(), 60);
    CO_VALUE(auto whole, co_await request(machine, "GET", file_target(path)));
    EXPECT_TRUE(whole.body == content);
    EXPECT_EQ(wire::find_header(whole.headers, "x-size"), "300000");
    CO_VALUE(auto part, co_await request(machine, "GET", file_target(path, "&offset=9&length=70")));
    EXPECT_EQ(part.body, content.substr(9, 70));
    CO_VALUE(auto beyond, co_await request(machine, "GET", file_target(path, "&offset=300000")));
    EXPECT_EQ(beyond.status, 200);
    EXPECT_EQ(beyond.body, "");

    EXPECT_EQ(co_await call(machine, "PUT", file_target(path), "short"), kDone);
    CO_VALUE(auto kept, co_await stat(machine, path));
    EXPECT_EQ(kept.at("mode").as_int64(), 0640) << "a replaced file keeps its mode";
    EXPECT_EQ(co_await call(machine, "PUT", file_target(path, "&append=1"), "+more"), kDone);
    EXPECT_EQ(co_await call(machine, "PUT", file_target(path, "&offset=2"), "XX"), kDone);
    EXPECT_EQ(co_await call(machine, "PUT", file_target(path, "&offset=12"), "end"), kDone);
    CO_VALUE(const std::string text, co_await machine.agent().read_file(path, patience()));
    EXPECT_EQ(text, std::string("shXXt+more\0\0end", 15));
    CO_OK(co_await machine.agent().write_file("/root/empty", "", patience()));
    CO_VALUE(const std::string size, co_await shell(machine, "stat -c '%s %a %u' /root/empty"));
    EXPECT_EQ(size, "0 644 0\n");
  });
}

TEST_F(AgentFiles, ListStatMakeMoveRemove) {
  run([](Machine& machine) -> Task<void> {
    CO_OK(
        co_await shell(machine,
                       "mkdir /root/d; cd /root/d; mkdir sub; mkfifo fifo; ln -s 'to there' link;"
                       "mknod char c 1 3; mknod block b 7 0; echo x > 'a b';"
                       "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'"));
    CO_VALUE(auto list, co_await request(machine, "GET", "/files/list?path=/root/d"));
    std::map<std::string, std::string> types;
    for (const std::string_view line : split(list.body, '\n')) {
      if (line.empty()) continue;
      CO_VALUE(auto entry, parse_json_object(line));
      types[std::string(entry.at("name").as_string())] = entry.at("type").as_string();
      if (entry.at("type").as_string() == "symlink") {
        EXPECT_EQ(entry.at("target").as_string(), "to%20there");
      }
    }
    const std::map<std::string, std::string> expected{
        {"sub", "dir"},     {"fifo", "fifo"},  {"link", "symlink"}, {"char", "char"},
        {"block", "block"}, {"a%20b", "file"}, {"sock", "socket"}};
    EXPECT_EQ(types, expected);

    EXPECT_EQ(co_await call(machine, "POST", "/files/mkdir?path=/root/p/q/r"), Code::not_found);
    EXPECT_EQ(co_await call(machine, "POST", "/files/mkdir?path=/root/p/q/r&parents=1&mode=0711"),
              kDone);
    EXPECT_EQ(co_await call(machine, "POST", "/files/mkdir?path=/root/p/q/r"), Code::conflict);
    EXPECT_EQ(co_await call(machine, "POST", "/files/rename?from=/root/p/q&to=/root/moved"), kDone);
    CO_VALUE(auto made, co_await stat(machine, "/root/moved/r"));
    EXPECT_EQ(made.at("type").as_string(), "dir");
    EXPECT_EQ(made.at("mode").as_int64(), 0711);
    EXPECT_EQ(co_await call(machine, "POST", "/files/remove?path=/root/moved"), Code::conflict);
    EXPECT_EQ(co_await call(machine, "POST", "/files/remove?path=/root/moved&recursive=1"), kDone);
    EXPECT_EQ(co_await call(machine, "POST", "/files/remove?path=/root/moved"), Code::not_found);
    EXPECT_EQ(co_await call(machine, "POST", "/files/remove?path=/root/d/link"), kDone);
    CO_VALUE(const std::string left, co_await shell(machine, "ls /root; ls /root/d"));
    EXPECT_EQ(left, "d\np\na b\nblock\nchar\nfifo\nsock\nsub\n");

    CO_OK(co_await shell(machine, "mkdir /root/many; cd /root/many; seq 1 3000 | xargs touch"));
    CO_VALUE(auto many, co_await request(machine, "GET", "/files/list?path=/root/many"));
    EXPECT_EQ(std::ranges::count(many.body, '\n'), 3000);
  });
}

TEST_F(AgentFiles, WrongPathsAreToldApart) {
  run([](Machine& machine) -> Task<void> {
    EXPECT_EQ(co_await call(machine, "GET", "/files?path=/no/such"), Code::not_found);
    EXPECT_EQ(co_await call(machine, "GET", "/files?path=/etc/passwd/x"), Code::conflict);
    EXPECT_EQ(co_await call(machine, "GET", "/files?path=/etc"), Code::conflict);
    EXPECT_EQ(co_await call(machine, "GET", "/files?path=/dev/zero"), Code::conflict);
    EXPECT_EQ(co_await call(machine, "GET", "/files"), Code::invalid);
    EXPECT_EQ(co_await call(machine, "PUT", "/files?path=/etc", "x"), Code::conflict);
    EXPECT_EQ(co_await call(machine, "GET", "/files/list?path=/no/such"), Code::not_found);
    EXPECT_EQ(co_await call(machine, "GET", "/files/list?path=/etc/passwd"), Code::conflict);
    EXPECT_EQ(co_await call(machine, "GET", "/files/stat?path=/no/such"), Code::not_found);
    EXPECT_EQ(co_await call(machine, "GET", "/tar?path=/no/such"), Code::not_found);
    EXPECT_EQ(co_await call(machine, "PUT", "/tar?path=/no/such", "x"), Code::not_found);
    EXPECT_EQ(co_await call(machine, "POST", "/files/rename?from=/no/such&to=/root/x"),
              Code::not_found);
    EXPECT_EQ(co_await call(machine, "PUT", "/files?path=/root/x&mode=9", "x"), Code::invalid);
    EXPECT_EQ(co_await call(machine, "PUT", "/files?path=/root/x&user=none", "x"), Code::invalid);
    EXPECT_EQ(co_await call(machine, "PUT", "/tar?path=/root", random_text(5000, 3)),
              Code::invalid);
  });
}

TEST_F(AgentFiles, SixtyFourMegabytesUpAndDown) {
  run([](Machine& machine) -> Task<void> {
    const std::string content = random_text(64 << 20, 64);
    const std::string sum = sha256(content);
    EXPECT_EQ(co_await call(machine, "PUT", "/files?path=/root/big", content), kDone);
    CO_VALUE(const std::string seen, co_await shell(machine, "sha256sum < /root/big"));
    EXPECT_EQ(seen, sum + "  -\n");
    CO_VALUE(auto back, co_await request(machine, "GET", "/files?path=/root/big"));
    EXPECT_EQ(back.body.size(), content.size());
    EXPECT_EQ(sha256(back.body), sum);
  });
}

TEST_F(AgentFiles, ACutUploadLeavesTheOldFile) {
  run([](Machine& machine) -> Task<void> {
    CO_OK(co_await shell(machine, "mkdir /root/d"));
    CO_OK(co_await machine.agent().write_file("/root/d/f", "old", patience()));
    {
      CO_VALUE(auto upload, machine.agent().data_stream("PUT", "/files?path=/root/d/f", false));
      // More than fits on the way: the agent has begun to write.
      CO_OK(co_await upload->write(random_text(4 << 20, 5), patience()));
    }
    CO_OK(co_await shell(machine, "until [ \"$(ls -A /root/d)\" = f ]; do sleep 0.05; done"));
    CO_VALUE(const std::string text, co_await machine.agent().read_file("/root/d/f", patience()));
    EXPECT_EQ(text, "old");
    CO_OK(co_await machine.agent().write_file("/root/d/f", "new", patience()));
    CO_VALUE(const std::string after, co_await shell(machine, "cat /root/d/f; ls -A /root/d"));
    EXPECT_EQ(after, "newf\n");
  });
}

TEST_F(AgentFiles, LinksStayInsideTheRoot) {
  run([](Machine& machine) -> Task<void> {
    CO_OK(co_await shell(machine,
                         "cd /root; ln -s ../../../../../../etc/passwd up; ln -s /etc/passwd abs;"
                         "ln -s ../../../../../../inside out; ln -s loop loop; ln -s / top;"
                         "ln -s /proc/self/root magic"));
    CO_VALUE(const std::string passwd, co_await shell(machine, "cat /etc/passwd"));
    for (const std::string name : {"up", "abs", "top/etc/passwd", "top/../../etc/passwd"}) {
      CO_VALUE(const std::string text,
               co_await machine.agent().read_file("/root/" + name, patience()));
      EXPECT_EQ(text, passwd) << name;
    }
    EXPECT_EQ(co_await call(machine, "PUT", "/files?path=/root/out", "x"), kDone);
    EXPECT_EQ(co_await call(machine, "PUT", "/files?path=/../../outside", "y"), kDone);
    CO_VALUE(const std::string placed, co_await shell(machine,
                                                      "cat /inside /outside; test -L "
                                                      "/root/out && echo still"));
    EXPECT_EQ(placed, "xystill\n");
    EXPECT_NE(co_await call(machine, "GET", "/files?path=/root/loop"), kDone);
    // The agent's own view of itself must not be a way to the agent's files.
    for (const std::string path : {"/root/magic/init", "/proc/self/root/init", "/proc/self/exe",
                                   "/proc/thread-self/root/init", "/proc/self/cwd/init"})
      EXPECT_NE(co_await call(machine, "GET", "/files?path=" + path), kDone) << path;
  });
}

TEST_F(AgentFiles, ATreeOfAllNamesSurvivesTar) {
  run([](Machine& machine) -> Task<void> {
    CO_OK(co_await python(machine, kMakeTree));
    CO_VALUE(auto packed, co_await request(machine, "GET", "/tar?path=/root/tree"));
    CO_ASSERT(packed.status == 200);
    EXPECT_EQ(packed.body.size() % 512, 0U);
    CO_OK(co_await shell(machine, "mkdir /root/copy /root/gnu /root/pax /root/foreign"));
    EXPECT_EQ(co_await call(machine, "PUT", "/tar?path=/root/copy", packed.body), kDone);
    // What we pack, the tar of the guest unpacks; what it packs in its formats, we unpack.
    CO_OK(co_await machine.agent().write_file("/root/ours.tar", packed.body, patience()));
    CO_OK(co_await shell(machine, "tar -xpf /root/ours.tar -C /root/foreign"));
    for (const std::string format : {"gnu", "pax"}) {
      CO_VALUE(auto made,
               co_await machine.agent().run(
                   shell_spec("tar -c --format=" + format + " -C /root/tree ."), patience()));
      CO_ASSERT(made.exit.exit_code == 0);
      EXPECT_EQ(co_await call(machine, "PUT", "/tar?path=/root/" + format, made.out), kDone);
    }
    CO_VALUE(const std::string compared, co_await python(machine, std::string(kDescribe) + R"(
tree = describe(b'/root/tree')
print(len(tree))
for name in ('copy', 'foreign', 'gnu', 'pax'):
    other = describe(b'/root/' + name.encode())
    print(name, 'same' if other == tree else ([l for l in tree if l not in other][:3], [l for l in other if l not in tree][:3]))
)"));
    EXPECT_THAT(compared, HasSubstr("\ncopy same\nforeign same\ngnu same\npax same\n"));
    EXPECT_GT(std::stoi(compared), 280);
  });
}

TEST_F(AgentFiles, TarOfOneFileAndEntriesThatLeadOut) {
  run([](Machine& machine) -> Task<void> {
    CO_OK(co_await shell(machine, "mkdir /root/to; echo content > /root/one"));
    CO_VALUE(auto packed, co_await request(machine, "GET", "/tar?path=/root/one"));
    EXPECT_EQ(co_await call(machine, "PUT", "/tar?path=/root/to", packed.body), kDone);
    CO_VALUE(const std::string text, co_await shell(machine, "cat /root/to/one"));
    EXPECT_EQ(text, "content\n");
    CO_VALUE(const std::string climbing, co_await python(machine, R"(
import io, sys, tarfile
out = tarfile.open(fileobj=sys.stdout.buffer, mode='w|')
info = tarfile.TarInfo('../escaped'); info.size = 1
out.addfile(info, io.BytesIO(b'x'))
out.close()
)"));
    EXPECT_NE(co_await call(machine, "PUT", "/tar?path=/root/to", climbing), kDone);
    CO_VALUE(const std::string linking, co_await python(machine, R"(
import io, sys, tarfile
out = tarfile.open(fileobj=sys.stdout.buffer, mode='w|')
link = tarfile.TarInfo('l'); link.type = tarfile.SYMTYPE; link.linkname = '/root'
out.addfile(link)
info = tarfile.TarInfo('l/escaped'); info.size = 1
out.addfile(info, io.BytesIO(b'x'))
out.close()
)"));
    EXPECT_NE(co_await call(machine, "PUT", "/tar?path=/root/to", linking), kDone);
    CO_VALUE(const std::string none, co_await shell(machine, "ls /root"));
    EXPECT_EQ(none, "one\nto\n");
  });
}

}  // namespace
}  // namespace firebreak::testing_support
