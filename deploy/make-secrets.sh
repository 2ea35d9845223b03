#!/bin/sh
# Makes the secrets of docker-compose.yml, once: a password for Redis, as its two readers want it.
#
#   sh deploy/make-secrets.sh
#
# The folder is open to its owner alone; in it the files can be read by all, since each container has a user of its own.
set -eu
folder="$(dirname "$0")/secrets"
if [ -e "$folder" ]; then
    echo "$folder is there already: remove it to make new secrets, and start the services anew." >&2
    exit 1
fi
umask 077
mkdir "$folder.new"
password="$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')"
printf 'requirepass %s\n' "$password" >"$folder.new/redis.conf"
printf 'redis://:%s@redis:6379/0\n' "$password" >"$folder.new/sitemapd_redis_url"
chmod 0444 "$folder.new/redis.conf" "$folder.new/sitemapd_redis_url"
mv "$folder.new" "$folder"
echo "Made $folder with a password for Redis."
