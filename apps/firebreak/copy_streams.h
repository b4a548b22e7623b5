// Places of cp, and the copies that touch no file of this host: between microVMs, from standard
// input, to standard output. Owned by the command; the client's thread.
#pragma once

#include <string>

#include "client.h"

namespace firebreak::cli {

struct Place {
  std::string id;  // empty: here
  std::string path;
};

// "ID:/path" is in a microVM. A path of ours with a colon is written with a slash: "./a:b".
Place parse_place(const std::string& text);
// One of them must be in a microVM.
Result<> check_places(const std::string& from, const std::string& to);

std::string file_query(const std::string& path);
std::string join_path(const std::string& directory, const std::string& name);
// "file", "dir" and so on; empty when there is none. A microVM that is not there is an error.
net::Task<Result<std::string>> type_in_guest(Client& client, const Place& place);

// The bytes pass through this program; nothing of them is kept.
net::Task<Result<>> copy_between(Client& client, Place from, Place to);
// A file as its bytes, a directory as a tar archive.
net::Task<Result<>> copy_to_stdout(Client& client, Place from);
// A tar archive into a directory, anything else into a file.
net::Task<Result<>> copy_from_stdin(Client& client, Place to);

}  // namespace firebreak::cli
