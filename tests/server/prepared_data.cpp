// prepared_data DIRECTORY: puts a stopped server's data directory with the image `python` there, as
// the servers of server/ find it.
#include <iostream>

#include "server/server_process.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: prepared_data DIRECTORY\n";
    return 2;
  }
  return firebreak::testing_support::ServerProcess::copy_prepared_data(argv[1]) ? 0 : 1;
}
