/* properties.h - server.properties and --override: Java properties syntax into a config_set, with
 * checks.
 *
 * Place:      broker/; also the fuzz target of the file's syntax.
 * Syntax:     key and value separated by '=', ':' or spaces; '#' and '!' comments; a backslash at
 *             the end of a line continues it; \t \n \r \f \uXXXX and backslash before any other
 *             character for itself.
 * Failure:    the first wrong value ends the parse; the message names file, line and what was
 *             expected. Unknown keys are logged. */
#ifndef BROKER_PROPERTIES_H
#define BROKER_PROPERTIES_H

#include "meta/config.h"

#define PROPERTIES_MESSAGE_SIZE 512
#define PROPERTIES_FILE_SIZE_MAX ((size_t)1 << 20)

/* Parses text into set. source is the name for messages, e.g. "server.properties". */
NODISCARD enum err properties_parse(struct slice text, const char *source,
                                    const struct logger *logger, struct config_set *set,
                                    char message[PROPERTIES_MESSAGE_SIZE]);
/* Reads and parses a file. ERR_NOTFOUND and others with a message. */
NODISCARD enum err properties_load(struct sys *sys, const char *path, const struct logger *logger,
                                   struct config_set *set, char message[PROPERTIES_MESSAGE_SIZE]);
/* One "key=value" of the command line. */
NODISCARD enum err properties_override(const char *argument, const struct logger *logger,
                                       struct config_set *set,
                                       char message[PROPERTIES_MESSAGE_SIZE]);

#endif
